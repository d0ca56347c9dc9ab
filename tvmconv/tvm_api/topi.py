"""TVM's library of tensor expressions (``tvm.topi``)."""

from tvm.topi import broadcast_to, cumsum, image, reshape, transpose
