"""Single layers by OpenVINO's own profile: the executed nodes without the reordering of tensors.

A single layer reads and writes NCHW, so a call reorders input and output, which a layer inside a
network does not. In NHWC, OpenVINO would compute INT8 layers in FP32. So only the times of nodes
that are not reorders are added, in whole microseconds each, rounded down.
"""

from __future__ import annotations

from collections.abc import Callable

from .case import Case, Session
from .openvino_cpu import open_request, version

__all__ = ["prepare", "version"]


def prepare(case: Case, threads: int) -> Session:
    """As :mod:`.openvino_cpu`, with its profile switched on."""
    run, request, outputs, _ = open_request(case, threads, PERF_COUNT="YES")

    def sample(call: Callable[[], object], count: int, cache_bytes: int) -> list[float]:
        times = []
        for _ in range(count):
            call()
            nodes = request.get_profiling_info()
            kept = [node.real_time for node in nodes if node.node_type != "Reorder"]
            times.append(sum(time.total_seconds() for time in kept))
        return times

    run()
    kernels = {
        f"{node.node_type} {node.exec_type}"
        for node in request.get_profiling_info()
        if node.real_time.total_seconds()
    }
    return Session(run, outputs, info=", ".join(sorted(kernels)), sampler=sample, colds=False)
