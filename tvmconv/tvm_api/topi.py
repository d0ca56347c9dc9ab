"""TVM's library of tensor expressions (``tvm.topi``)."""

from tvm.topi import image, reshape

__all__ = ["image", "reshape"]
