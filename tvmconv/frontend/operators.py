"""Names of the ONNX operators that can be imported.

The reader refuses all others before onnx's shape inference, which may not be safe for malformed
nodes.
"""

from __future__ import annotations

# operators with a converter in tvmconv.frontend.convert
CONVERTED = frozenset({
    "Abs", "Acos", "Acosh", "Add", "AffineGrid", "And", "ArgMax", "ArgMin", "Asin", "Asinh",
    "Atan", "Atanh", "AveragePool", "BatchNormalization", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
    "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Concat", "Conv", "ConvInteger",
    "ConvTranspose", "Cos", "Cosh", "CumSum", "DepthToSpace", "DequantizeLinear", "Div",
    "DynamicQuantizeLinear", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand", "Flatten", "Floor",
    "GRU", "LSTM", "RNN",
    "Gather", "GatherElements",
    "GatherND", "Gelu", "Gemm", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "Greater",
    "GreaterOrEqual", "GridSample", "GroupNormalization", "HardSigmoid", "HardSwish", "Identity",
    "InstanceNormalization", "IsInf", "IsNaN", "LRN", "LayerNormalization", "LeakyRelu", "Less",
    "LessOrEqual", "Log", "LogSoftmax", "LpNormalization", "LpPool", "MatMul", "MatMulInteger",
    "Max", "MaxPool", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pad",
    "Pow", "QuantizeLinear", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare", "Relu", "Reshape", "Resize", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
    "Sin", "Sinh", "Slice", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Split", "Sqrt",
    "Squeeze", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Tile", "TopK",
    "Transpose", "Trilu", "Unsqueeze", "Upsample", "Where", "Xor",
    # signals
    "DFT", "STFT",
    # regions, and samples at computed places
    "DeformConv", "MaxRoiPool", "RoiAlign",
    # newest operator sets
    "BitCast", "SwiGLU", "TensorScatter",
    # at computed places, and what is written as other operators
    "Compress", "NonMaxSuppression", "NonZero", "Unique",
    "BitShift", "CenterCropPad", "Col2Im", "CumProd", "Det", "Hardmax", "MaxUnpool",
    "MeanVarianceNormalization", "OneHot", "ReverseSequence", "Scatter", "ScatterElements",
    "ScatterND",
})  # fmt: skip

# operators that are supported with constant operands, or removed by the reader
FOLDED = frozenset({
    "Constant", "ConstantOfShape", "Dropout", "EyeLike", "Range",
    "Shape", "Size",
    # tables of signal processing
    "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix",
})  # fmt: skip

# operators that the reader writes as float operators between DequantizeLinear and QuantizeLinear
EXPANDED = frozenset({
    "DynamicQuantizeLSTM", "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat",
    "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMatMul", "QLinearMul",
    "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere",
})  # fmt: skip

# operators that the reader writes as graphs of other operators
COMPOSED = frozenset({
    "Attention", "CausalConvWithState", "LinearAttention", "NegativeLogLikelihoodLoss",
    "RMSNormalization", "RotaryEmbedding", "SoftmaxCrossEntropyLoss", "TfIdfVectorizer",
})  # fmt: skip

# such operators of onnxruntime's operator set; its optimizer and its transformer tools write them
COMPOSED_MICROSOFT = frozenset({
    "Attention", "BiasAdd", "BiasGelu", "BiasSplitGelu", "DynamicQuantizeMatMul",
    "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu",
    "GroupNorm", "GroupQueryAttention", "LayerNormalization", "MatMulIntegerToFloat",
    "MatMulNBits", "MultiHeadAttention", "NhwcConv", "NhwcFusedConv", "NhwcMaxPool", "QAttention",
    "QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool", "QuickGelu",
    "RotaryEmbedding", "SimplifiedLayerNormalization", "SkipGroupNorm", "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization", "TransposeMatMul",
})  # fmt: skip

# operators with sub-graphs, which are read in place or become programs of their own
CONTROL = frozenset({"If", "Loop", "Scan"})

# operators of other operator sets than the default one, by operator set
MICROSOFT = "com.microsoft"
FOREIGN = {
    MICROSOFT: EXPANDED - {"QLinearMatMul"}
    | {"DequantizeLinear", "QuantizeLinear"}
    | COMPOSED_MICROSOFT
}
# onnxruntime writes these operators in the default operator set, before the first version here
_MICROSOFT_BEFORE = {"LayerNormalization": 17, "SimplifiedLayerNormalization": 1_000}

IMPORTED = CONVERTED | FOLDED | EXPANDED | CONTROL | COMPOSED | set(_MICROSOFT_BEFORE)


def is_imported(domain: str, op: str) -> bool:
    """Whether the reader takes an operator, at least with constant operands."""
    return op in (IMPORTED if domain in ("", "ai.onnx") else FOREIGN.get(domain, ()))


def own_domain(domain: str, op: str, opset: int) -> str:
    """The operator set that defines an operator, ``""`` for the default one."""
    domain = "" if domain == "ai.onnx" else domain
    return MICROSOFT if not domain and opset < _MICROSOFT_BEFORE.get(op, 0) else domain
