"""Bytes of a layer: the needs of a bench, and the buffers of each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tvmconv.core.datatypes import itemsize
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.bench.result import OWN, PEAK

_GIB = 1024**3
# layers of more operations have only some values of their output compared
_MOST_COMPARED = 2e10


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of a layer's tensors, and of the buffers that two methods need for them.

    Plain tensors without the padding to channel blocks. ``im2col`` is the whole matrix ``N Ho Wo x
    Ci Hf Wf`` of a batch. ``im2win`` is the window tensor ``N x Ci x Ho x Wi Hf`` with the columns
    of the padding (equations 2-5 and 2-4 of the im2win thesis).
    """

    input: int
    filter: int
    output: int
    im2col: int
    im2win: int


def layer_bytes(workload: Conv2dWorkload) -> LayerBytes:
    """The bytes of a workload."""
    w = workload
    pixels = w.batch * w.out_height * w.out_width
    width = w.in_width + w.pad_left + w.pad_right
    data, output = itemsize(w.types.data), itemsize(w.types.output)
    filters = w.out_channels * (w.in_channels // w.groups) * w.kernel_h * w.kernel_w
    return LayerBytes(
        input=data * w.batch * w.in_channels * w.in_height * w.in_width,
        filter=itemsize(w.types.weight) * filters,
        output=output * pixels * w.out_channels,
        im2col=data * pixels * w.in_channels * w.kernel_h * w.kernel_w,
        im2win=data * w.batch * w.in_channels * w.out_height * width * w.kernel_h,
    )


def is_sampled(workload: Conv2dWorkload) -> bool:
    """Whether a layer is so large that only some values of its output are compared.

    The whole float64 output of a large batch takes minutes, and much memory.
    """
    return workload.flops > _MOST_COMPARED and not workload.types.is_integer


def too_large(
    workload: Conv2dWorkload | GemmWorkload,
    labels: Sequence[str],
    available: int | None = None,
    *,
    nchw: bool = False,
) -> str:
    """Why this machine's memory is too small for a layer or product; empty if it is not.

    Every implementation but the peak holds input, output and weights twice: in its own layouts, and
    as given. One at a time also has its buffers and the comparison in float64. ``labels`` with
    ``im2win`` or ``im2col`` may need its buffer; other libraries may need im2col's. With ``nchw``,
    ours hold input and output in both layouts. ``available`` bytes are by default the system's.
    """
    labels = [label for label in labels if label != PEAK]
    if isinstance(workload, GemmWorkload):
        needed = 2 * len(labels) * workload.tensor_bytes + 24 * workload.m * workload.n
        return _refusal(len(labels), needed, available, "name fewer with --baselines")
    size = layer_bytes(workload)
    each = 2 * (size.input + size.output + size.filter)
    buffer = max((_buffer(label, size) for label in labels), default=0)
    needed = len(labels) * each + buffer + size.input
    if not is_sampled(workload):
        needed += 2 * size.input + 7 * size.output
    if nchw:
        own = sum(label.startswith(OWN) for label in labels)
        needed += own * (size.input + size.output)
    remedy = "name fewer with --baselines and --algorithms, or take a smaller --batch"
    return _refusal(len(labels), needed, available, remedy)


def _buffer(label: str, size: LayerBytes) -> int:
    """Bytes that one implementation may need next to the tensors."""
    if label == "direct_loops":
        return 0
    if label == "winograd_blas":
        return 36 * (size.input + size.output) // 16
    if "im2col" in label or not label.startswith(OWN):
        return size.im2col
    return size.im2win if "im2win" in label else 0


def _refusal(implementations: int, needed: int, available: int | None, remedy: str) -> str:
    available = available_bytes() if available is None else available
    if needed <= available:
        return ""
    return (
        f"skipped: {implementations} implementations need about {needed / _GIB:.1f} GiB, and "
        f"{available / _GIB:.1f} GiB are available; {remedy}"
    )


def available_bytes() -> int:
    """Memory for new processes, within the control group's limit."""
    import psutil

    limits = [int(psutil.virtual_memory().available)]
    try:
        most = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        limits += [int(most) - used] if most.isdecimal() else []
    except (OSError, ValueError):
        pass
    return max(min(limits), 0)
