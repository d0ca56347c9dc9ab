"""Walking and comparing trees of any node, and exceptions that pass through (``tvm_ffi``)."""

from tvm_ffi import (
    StructuralKey,
    dtype,
    register_error,
    register_global_func,
    structural,
    structural_equal,
    structural_map,
    structural_walk,
)
