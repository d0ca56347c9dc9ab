"""Single layers by OpenVINO's own profile: what it executes less the reordering of tensors.

A layer alone reads and writes NCHW, which its kernels do not: a whole call reorders input and
output, of which a layer in the middle of a network has none. Written in NHWC, 8-bit layers become
float32 ones. So the times of a call's nodes are added that are no reorders, in whole microseconds
each, rounded down.
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
