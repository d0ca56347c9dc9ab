"""One adapter per library that ``tvmconv bench`` compares with.

The worker and the adapters of other libraries use numpy and that library only, and import each
other relatively: ``worker.py`` loads this folder under a private name, so that peers can live
in a Python environment in which tvmconv is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    """A library and where its adapter is.

    Parameters
    ----------
    name
        What ``--baselines`` calls it.
    module
        File of this folder that drives it.
    distribution
        The Python package to install, whose version is reported.
    models, layers, products
        Whether it takes part in benches of whole models, single layers and matrix products.
    """

    name: str
    module: str
    distribution: str
    models: bool = True
    layers: bool = True
    products: bool = False


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("onnxruntime", "ort", "onnxruntime", products=True),
        Peer("openvino", "openvino_cpu", "openvino"),
        Peer("openvino_profile", "openvino_profile", "openvino", models=False),
        Peer("torch", "torch_jit", "torch", products=True),
        Peer("torch_im2col", "torch_im2col", "torch", models=False),
        Peer("onednn", "onednn_direct", "onednn", models=False, products=True),
        Peer("litert", "litert_xnnpack", "ai-edge-litert"),
        Peer("ncnn", "ncnn_cpu", "ncnn"),
        Peer("mnn", "mnn_cpu", "MNN"),
        Peer("acl", "acl", "pyarmnn", models=False),
        Peer("nnpack", "nnpack", "torch", models=False),
        Peer("openblas", "openblas", "numpy", products=True),
        Peer("blis", "blis_gemm", "blis", models=False, layers=False, products=True),
    )
}
# on GPUs; cudnn is torch's call of it with its own search
_ON_CUDA: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("torch", "torch_cuda", "torch"),
        Peer("torch_compile", "torch_compile", "torch"),
        Peer("cudnn", "cudnn", "torch", models=False),
        Peer("im2col_cublas", "im2col_cublas", "torch", models=False),
        Peer("onnxruntime", "ort_cuda", "onnxruntime-gpu"),
    )
}
# Adapters that need tvmconv itself; they run in its own environment.
OWN: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("tvmconv", "own", "tvmconv"),
        Peer("peak", "machine_peak", "tvmconv"),
    )
}
_OWN_ON_CUDA: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("tvmconv", "own_gpu", "tvmconv"),
        Peer("peak", "gpu_peak", "tvmconv"),
    )
}
# by kind of device
OF_KIND = {"cpu": PEERS, "cuda": _ON_CUDA}
OWN_OF_KIND = {"cpu": OWN, "cuda": _OWN_ON_CUDA}
