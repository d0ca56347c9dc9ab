"""Walking and comparing trees of any node (``tvm_ffi``)."""

from tvm_ffi import dtype, structural, structural_equal, structural_map, structural_walk

__all__ = ["dtype", "structural", "structural_equal", "structural_map", "structural_walk"]
