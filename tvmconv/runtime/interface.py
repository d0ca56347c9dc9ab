"""The structs and function types of ``tvmconv.h``, for ctypes."""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)

ABI = 1


class TensorRecord(Structure):
    """An input or output."""

    _fields_ = (
        ("name", c_char_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", POINTER(c_int64)),
        ("bytes", c_uint64),
    )


class LayerRecord(Structure):
    """One kernel call."""

    _fields_ = (
        *((name, c_char_p) for name in ("name", "operation", "algorithm", "workload", "kernel")),
        ("flops", c_uint64),
        ("bytes", c_uint64),
    )


class Description(Structure):
    """The facts of a model, or of one of its programs."""

    _fields_ = (
        ("size", c_uint32),
        ("input_count", c_int32),
        ("output_count", c_int32),
        ("layer_count", c_int32),
        ("inputs", POINTER(TensorRecord)),
        ("outputs", POINTER(TensorRecord)),
        ("layers", POINTER(LayerRecord)),
        *((name, c_char_p) for name in ("name", "version", "target", "features")),
        ("arena_bytes", c_uint64),
        ("workspace_bytes", c_uint64),
        ("weight_bytes", c_uint64),
        ("threads", c_int32),
        ("separate_weights", c_int32),
        ("device", c_int32),
        ("varying_axes", POINTER(c_int32)),
        ("programs", POINTER(c_void_p)),
        ("program_count", c_int64),
        ("batched", POINTER(c_int32)),
    )


class Options(Structure):
    """Options of a new state."""

    _fields_ = (
        ("size", c_uint32),
        ("threads", c_int32),
        ("parallel_for", c_void_p),
        ("parallel_context", c_void_p),
        ("weights", c_void_p),
        ("weight_bytes", c_uint64),
        ("weights_path", c_char_p),
        ("cuda_graph", c_int32),
        ("gpu", c_int64),
        ("target", c_char_p),
    )


_Create = CFUNCTYPE(c_int32, POINTER(Options), POINTER(c_void_p), c_char_p, c_size_t)
_Run = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p)
_Profile = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_void_p)
_Enqueue = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_void_p)
_Shape = CFUNCTYPE(c_int32, c_void_p, c_int32, c_void_p)
_SetShapes = CFUNCTYPE(c_int32, c_void_p, c_void_p)
_Describe = CFUNCTYPE(c_void_p, c_void_p)
_RunBatch = CFUNCTYPE(c_int32, c_void_p, c_int64, c_void_p, c_void_p)
_Cpus = CFUNCTYPE(c_int32, c_char_p, POINTER(c_int32), c_int32)
_Message = CFUNCTYPE(c_char_p, c_void_p)
_Destroy = CFUNCTYPE(None, c_void_p)


class ModelTable(Structure):
    """The functions of a model."""

    # Python does not use the pool's functions and `threads`; older models lack the functions after
    _fields_ = (
        ("abi", c_uint32),
        ("size", c_uint32),
        ("description", POINTER(Description)),
        ("create", _Create),
        ("run", _Run),
        ("profile", _Profile),
        ("message", _Message),
        ("destroy", _Destroy),
        *((name, c_void_p) for name in ("pool_create", "pool_parallel_for", "pool_destroy")),
        ("threads", c_void_p),
        ("enqueue", _Enqueue),
        ("shape", _Shape),
        ("set_shapes", _SetShapes),
        ("describe", _Describe),
        ("run_batch", _RunBatch),
        ("cpus", _Cpus),
    )
