"""TVM's library of tensor expressions (``tvm.topi``)."""

from tvm.topi import cumsum, image, reshape, transpose
