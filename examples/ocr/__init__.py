"""Reads the text in a picture by trained networks, with tvmconv and with onnxruntime."""
