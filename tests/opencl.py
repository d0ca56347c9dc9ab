"""Running the kernels of a GPU's schedules by PoCL, as TVM's OpenCL code for the same loops.

The emulator of ``tests/cuda.py`` runs the CUDA source itself, thread by thread, and finds missing
barriers. PoCL's machine code is many times faster, so it serves for breadth over real shapes. It
runs nothing that CUDA alone has: tensor cores and asynchronous copies.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.cuda import convolution_operands
from tvmconv.kernels.kernel import Kernel
from tvmconv.tir.cuda.lowering import cuda_code
from tvmconv.tir.cuda.pipeline import loop_passes
from tvmconv.tir.cuda.workspace_parameters import with_workspace

# the functions of tvmconv.tir.cuda.extrema, which hold CUDA's instruction, for numbers and for
# vectors
_EXTREMA = "".join(
    f"float __attribute__((overloadable)) tvmconv_{side}imum(float a, float b) "
    f"{{ return isnan(a) || a {sign} b ? a : b; }}\n"
    + "".join(
        f"float{n} __attribute__((overloadable)) tvmconv_{side}imum(float{n} a, float{n} b) "
        f"{{ return select(b, a, isnan(a) | (a {sign} b)); }}\n"
        for n in (2, 4)
    )
    for side, sign in (("max", ">"), ("min", "<"))
)
# products and sums round once or twice: the tests' tolerance does not ask which
_OPTIONS = ["-cl-std=CL1.2"]


@cache
def pocl() -> tuple[Any, Any, Any]:
    """The module, a context of PoCL's processor device and a queue; skips where it is not."""
    cl = pytest.importorskip("pyopencl", reason="needs PoCL: pip install -e '.[opencl]'")
    platforms = [p for p in cl.get_platforms() if "Portable" in p.name]
    if not platforms:
        pytest.skip("needs PoCL: pip install -e '.[opencl]'")
    context = cl.Context([platforms[0].get_devices()[0]])
    try:
        cl.Program(context, "__kernel void nothing(void) {}").build(_OPTIONS)
    except cl.RuntimeError:
        # its LLVM is older than the processor
        pytest.skip("PoCL does not know this processor")
    return cl, context, cl.CommandQueue(context)


def opencl_source(kernel: Kernel) -> str:
    """OpenCL C of a kernel, after the passes that its CUDA source goes through."""
    import tvm
    from tvm import ir, tirx
    from tvm.s_tir.pipeline import finalize_device_passes

    target = tvm.target.Target({"kind": "opencl", "max_threads_per_block": 1024})
    module = ir.IRModule({"main": with_workspace(kernel.prim_func("main"))})
    bound = tirx.transform.BindTarget(target.with_host(tvm.target.Target("llvm")))(module)
    split = ir.transform.Sequential(loop_passes())(bound)
    kernels = {
        var: func
        for var, func in split.functions_items()
        if "tirx.kernel_launch_params" in func.attrs
    }
    device = finalize_device_passes()(ir.IRModule(kernels))
    build = tvm.get_global_func("target.build.opencl")
    return _EXTREMA + str(build(device, target).inspect_source())


def run_by_pocl(kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    """The output of all launches in turn, and its float64 reference."""
    cl, context, queue = pocl()
    given, expected = convolution_operands(kernel)
    function = with_workspace(kernel.prim_func("main"))
    shapes = [tuple(int(n) for n in buffer.shape) for buffer in function.params]
    arrays = [*given, *(np.full(shape, np.nan, "f4") for shape in shapes[len(given) :])]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=np.ascontiguousarray(a)) for a in arrays]
    program = cl.Program(context, opencl_source(kernel)).build(_OPTIONS)
    for launch in cuda_code(function, kernel.machine).launches["main"]:
        assert not launch.dynamic_shared_bytes
        made = cl.Kernel(program, launch.kernel)
        made.set_args(*(buffers[place] for place in launch.arguments))
        total = [
            blocks * threads for blocks, threads in zip(launch.grid, launch.block, strict=True)
        ]
        cl.enqueue_nd_range_kernel(queue, made, total, launch.block)
    output = np.empty_like(arrays[len(given) - 1])
    cl.enqueue_copy(queue, output, buffers[len(given) - 1])
    queue.finish()
    return output, expected
