"""Recognition of quantized layers: which regions stay INT8, and what each kernel rounds."""
