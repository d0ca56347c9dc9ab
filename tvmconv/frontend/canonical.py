"""The Relax forms in which activations and layers leave the importer.

Graph passes match these and nothing else. ``c`` stands for a float32 constant of shape ``()``.

=====================  =================================================================
ONNX                   Relax
=====================  =================================================================
Conv (1-D, 2-D)        ``nn.conv2d(x, W, strides, padding=(top, left, bottom, right),
                       dilation, groups)``, NCHW/OIHW; a 1-D convolution stands between
                       ``expand_dims(x, 2)`` and ``squeeze(y, 2)``
its bias               ``add(conv, B)`` with ``B`` a constant of shape (1, K, 1, 1), always
                       the operator directly after the convolution
ConvTranspose          ``nn.conv2d_transpose`` NCHW/IOHW, dilation 1 (a dilated kernel is
                       stored with its zeros), then its bias as above
BatchNormalization     folded into the convolution before it, else ``multiply`` and ``add``
                       with constants of shape (1, C, 1, 1)
Relu                   ``nn.relu(x)``
LeakyRelu              ``nn.leakyrelu(x, alpha)``
Clip                   ``clip(x, low, high)``; with one bound ``maximum(x, c)`` or
                       ``minimum(x, c)``; ``Clip(0, inf)`` is ``nn.relu(x)``
PRelu                  ``nn.prelu(x, slope, axis=1)`` for one slope a channel
Sigmoid, Tanh          ``sigmoid(x)``, ``tanh(x)``
SiLU (x * Sigmoid(x))  ``nn.silu(x)``
HardSigmoid            ``clip(add(multiply(x, c_alpha), c_beta), 0, 1)``
HardSwish              ``multiply(x, clip(add(multiply(x, c_1/6), c_1/2), 0, 1))``, also for
                       the exporters' Add(3), Clip(0, 6), Div(6) spellings
Gelu                   ``nn.gelu(x)`` (exact, also for the Erf spelling), ``nn.gelu_tanh(x)``
Gemm, MatMul + bias    ``matmul(x, W)`` with ``W`` a constant of shape (in, out), scaled and
                       transposed at import; then ``add(y, b)`` with ``b`` of shape (out,)
MaxPool                ``nn.max_pool2d`` with explicit padding, never ``ceil_mode``
AveragePool            ``nn.avg_pool2d`` with explicit padding, never ``ceil_mode``
LpPool                 ``nn.avg_pool2d`` of the powers, padding counted, ``multiply`` by the taps,
                       then the root
GlobalAveragePool      ``mean(x, axis=[2, 3], keepdims=True)``
GlobalMaxPool          ``max(x, axis=[2, 3], keepdims=True)``
GlobalLpPool           ``sum`` of the powers over the axes, then the root
LRN                    squares, ``nn.avg_pool2d`` over the channel axis of a (N, 1, C, H*W)
                       view, then ``divide(x, power(base, c))``
Softmax, LogSoftmax    ``nn.softmax(x, axis)``, ``nn.log_softmax(x, axis)``
Resize, Upsample       ``image.resize2d`` of NCHW (``nearest_neighbor``/``asymmetric``/``floor``
                       for whole factors, ``linear``), else ``take`` by constant indices,
                       weighted and added for linear and cubic
Reshape, Flatten,
Squeeze, Unsqueeze     ``reshape(x, shape)``
Pad                    ``nn.pad(x, widths, "constant", value)``, other modes ``take``
Split                  ``split(x, cuts, axis)`` and its tuple items
Sum, Max, Min, Mean    a chain of two-operand operators
QuantizeLinear         ``quantize(x, scale, zero_point, axis, dtype)``, scale in float32 and zero
                       point in ``dtype`` of shape () or (n,), ``axis`` from the front
DequantizeLinear       ``dequantize(x, scale, zero_point, axis)`` likewise, the zero point in the
                       type of ``x``; of a constant, the constant of integers stays
QLinear..., QGemm      the float operator's forms between ``dequantize`` and ``quantize``; the bias
                       is ``dequantize`` of int32 by the product of the scales, already in the
                       shape in which it is added, a Gemm's weight already transposed
ConvInteger,           ``nn.conv2d``, ``matmul`` of int32 operands less their zero points, constant
MatMulInteger          ones subtracted at import
=====================  =================================================================

The binding that holds a layer's main operator (convolution, transposed convolution, matrix
product, pooling) carries the ONNX node's name; :func:`layer_name` reads it.
"""

from __future__ import annotations

from tvmconv.tvm_api.types import RelaxVar


def layer_name(var: RelaxVar) -> str:
    """Name of the ONNX node whose main operator a Relax variable is bound to.

    Parameters
    ----------
    var
        The variable on the left of the binding, as found in the module that ``to_relax``
        returned. Passes that rebuild a binding must carry the name over.
    """
    return str(var.name)
