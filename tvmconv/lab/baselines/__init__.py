"""One adapter per library that ``tvmconv bench`` compares with.

The worker and the adapters of other libraries use numpy and that library only, and import each
other relatively. ``worker.py`` loads this folder under a private name, so that baselines can run in
a Python environment without tvmconv.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Baseline:
    """A library and its adapter.

    ``module`` is the file of this folder that drives it, and ``distribution`` the Python package to
    install, whose version is reported. ``models``, ``layers`` and ``products`` are the benches in
    which it takes part; poolings are measured as models. ``common`` is whether ``all`` means it:
    baselines of papers are only measured by name.
    """

    name: str
    module: str
    distribution: str
    models: bool = True
    layers: bool = True
    products: bool = False
    common: bool = True


def _by_name(*baselines: Baseline) -> dict[str, Baseline]:
    return {baseline.name: baseline for baseline in baselines}


BASELINES = _by_name(
    Baseline("onnxruntime", "ort", "onnxruntime", products=True),
    Baseline("openvino", "openvino_cpu", "openvino"),
    Baseline("openvino_profile", "openvino_profile", "openvino", models=False),
    Baseline("torch", "torch_jit", "torch", products=True),
    Baseline("torch_compile", "torch_inductor", "torch"),
    Baseline("torch_im2col", "torch_im2col", "torch", models=False),
    Baseline("onednn", "onednn_direct", "onednn", models=False, products=True),
    Baseline("litert", "litert_xnnpack", "ai-edge-litert"),
    Baseline("ncnn", "ncnn_cpu", "ncnn"),
    Baseline("mnn", "mnn_cpu", "MNN"),
    Baseline("opencv", "opencv_dnn", "opencv-python"),
    Baseline("iree", "iree_cpu", "iree-base-runtime"),
    Baseline("acl", "acl", "pyarmnn", models=False),
    Baseline("nnpack", "nnpack", "torch", models=False),
    Baseline("openblas", "openblas", "numpy", products=True),
    Baseline("blis", "blis_gemm", "blis", models=False, layers=False, products=True),
    Baseline("direct_loops", "direct_loops", "", models=False, common=False),
    Baseline("winograd_blas", "winograd_blas", "numpy", models=False, common=False),
)
# on GPUs; cudnn is called by torch with its own search
_ON_CUDA = _by_name(
    Baseline("torch", "torch_cuda", "torch"),
    Baseline("torch_compile", "torch_compile", "torch"),
    Baseline("cudnn", "cudnn", "torch", models=False),
    Baseline("im2col_cublas", "im2col_cublas", "torch", models=False),
    Baseline("onnxruntime", "ort_cuda", "onnxruntime-gpu"),
)
# Adapters that need tvmconv itself; they run in its own environment.
OWN = _by_name(
    Baseline("tvmconv", "own", "tvmconv"),
    Baseline("peak", "machine_peak", "tvmconv"),
)
_OWN_ON_CUDA = _by_name(
    Baseline("tvmconv", "own_gpu", "tvmconv"),
    Baseline("peak", "gpu_peak", "tvmconv"),
)
# by kind of device
OF_KIND = {"cpu": BASELINES, "cuda": _ON_CUDA}
OWN_OF_KIND = {"cpu": OWN, "cuda": _OWN_ON_CUDA}
OWN_ADAPTERS = frozenset(own.module for table in OWN_OF_KIND.values() for own in table.values())
