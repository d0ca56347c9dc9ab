"""The Relax forms in which activations and layers leave the importer.

Graph passes match only these forms. ``c`` is a float32 constant of shape ``()``.

- Conv (1-D, 2-D): ``nn.conv2d(x, W, strides, padding, dilation, groups)`` in NCHW and OIHW, with
  padding (top, left, bottom, right). A 1-D convolution is between ``expand_dims(x, 2)`` and
  ``squeeze(y, 2)``.
- Bias of a convolution: ``add(conv, B)`` with a constant ``B`` of shape (1, K, 1, 1), always
  directly after the convolution.
- ConvTranspose: ``nn.conv2d_transpose`` in NCHW and IOHW with dilation 1, then its bias. A dilated
  kernel is stored with its zeros.
- BatchNormalization: folded into the convolution before it. Otherwise ``multiply`` and ``add`` with
  constants of shape (1, C, 1, 1).
- Relu: ``nn.relu(x)``.
- LeakyRelu: ``nn.leakyrelu(x, alpha)``.
- Clip: ``clip(x, low, high)``. With one bound ``maximum(x, c)`` or ``minimum(x, c)``. A Clip to
  (0, inf) is ``nn.relu(x)``.
- PRelu: ``nn.prelu(x, slope, axis=1)`` for one slope per channel.
- Sigmoid, Tanh: ``sigmoid(x)``, ``tanh(x)``.
- HardSigmoid: ``clip(add(multiply(x, c_alpha), c_beta), 0, 1)``.
- HardSwish: ``multiply(x, clip(add(multiply(x, c_1/6), c_1/2), 0, 1))``.
- Gelu: ``nn.gelu(x)``, also for the form with Erf, or ``nn.gelu_tanh(x)``.
- Gemm, MatMul and bias: ``matmul(x, W)`` with a constant ``W`` of shape (in, out), scaled and
  transposed at import. Then ``add(y, b)`` with ``b`` of shape (out,).
- MaxPool, AveragePool: ``nn.max_pool2d``, ``nn.avg_pool2d`` with explicit padding, never
  ``ceil_mode``.
- LpPool: ``nn.avg_pool2d`` of the powers with counted padding, ``multiply`` by the kernel's size,
  then the root.
- GlobalAveragePool, GlobalMaxPool: ``mean`` or ``max`` with ``axis=[2, 3], keepdims=True``.
- GlobalLpPool: ``sum`` of the powers over the axes, then the root.
- LRN: squares, ``nn.avg_pool2d`` over the channel axis of a (N, 1, C, H*W) view, then
  ``divide(x, power(base, c))``.
- Softmax, LogSoftmax: ``nn.softmax(x, axis)``, ``nn.log_softmax(x, axis)``.
- LSTM, GRU, RNN: ``matmul(x, W)`` of all steps and directions, ``add(y, b)``, then a call with the
  name of a :class:`~tvmconv.operators.recurrent_form.RecurrentForm` as text.
- Resize, Upsample: ``image.resize2d`` in NCHW, for whole factors with ``nearest_neighbor``,
  ``asymmetric`` and ``floor``, or with ``linear``. Otherwise ``take`` by constant indices, with
  weighted sums for linear and cubic.
- Reshape, Flatten, Squeeze, Unsqueeze: ``reshape(x, shape)``.
- Pad: ``nn.pad(x, widths, "constant", value)``. Other modes are ``take``.
- Split: ``split(x, cuts, axis)`` and its tuple items.
- Sum, Max, Min, Mean: a chain of operators with two operands.
- QuantizeLinear: ``quantize(x, scale, zero_point, axis, dtype)`` with an FP32 scale. The zero point
  has the type ``dtype`` and the shape () or (n,). ``axis`` is not negative.
- DequantizeLinear: ``dequantize(x, scale, zero_point, axis)`` likewise, with a zero point in the
  type of ``x``. A constant stays a constant of integers.
- QLinear..., QGemm: the float operator's form between ``dequantize`` and ``quantize``. The bias is
  a ``dequantize`` of INT32 by the product of the scales, in the shape in which it is added. A
  Gemm's weight is transposed.
- ConvInteger, MatMulInteger: ``nn.conv2d``, ``matmul`` of INT32 operands without their zero points.
  Constant zero points are subtracted at import.

The binding that holds a layer's main operator (convolution, transposed convolution, matrix
product, pooling) carries the ONNX node's name; :func:`layer_name` reads it.
"""

from __future__ import annotations

from tvmconv.tvm_api.types import RelaxVar


def layer_name(var: RelaxVar) -> str:
    """Name of the ONNX node whose main operator a Relax variable is bound to.

    Passes that rebuild a binding must keep the name.
    """
    return str(var.name)
