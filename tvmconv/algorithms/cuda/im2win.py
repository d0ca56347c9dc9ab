"""im2win on GPUs: the product of filters and contiguous windows, column by column.

Lu (2023), section 4.2: output channels are the rows of the product, and pixels of all images are
its columns. The reduction runs through a window with the kernel's rows innermost. With
``windows=stored``, one kernel writes the window tensor
``X[n, c, m, k Hf + u] = I[n, c, m s + u, k]`` with padding, and another kernel multiplies it. With
``windows=fused``, the product gathers the same values from the image: implicit GEMM in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvmconv.algorithms.base import images_only
from tvmconv.algorithms.cuda.base import CudaOperands
from tvmconv.algorithms.cuda.implicit_gemm import ColumnSource, ImplicitGemm
from tvmconv.algorithms.cuda.slices import CHANNELS, COLUMN_KINDS, Slices
from tvmconv.algorithms.gemm.im2win import columns
from tvmconv.algorithms.padding import inside_image, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr

STORED, FUSED = "stored", "fused"


def window_shape(workload: Conv2dWorkload) -> tuple[int, int, int, int]:
    """``(N, C, Ho, Wi Hf)`` with the columns that some window reads, including padding."""
    w = workload
    return (w.batch, w.in_channels, w.out_height, columns(w) * w.kernel_h)


class Im2win(ImplicitGemm):
    """One product for each group, as :class:`ImplicitGemm`.

    The expression also reads the parameter ``windows``.
    """

    name = "im2win"
    blocks = ("windows", "columns", "conv2d", "output")
    stages = (
        ("window transform", ("windows",)),
        ("product", ("columns", "conv2d", "output")),
    )

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Layers that are not GEMMs, and volumes."""
        return super().unsuited(workload, machine) or images_only(workload)

    def slices(self, workload: Conv2dWorkload, config: Config) -> Slices:
        """The kernel's rows are innermost."""
        return Slices(workload, str(config["slice"]), config.int("k"), by_columns=True)

    def slice_kinds(self, workload: Conv2dWorkload) -> tuple[str, ...]:
        """Columns in place of rows."""
        return COLUMN_KINDS if len(super().slice_kinds(workload)) > 1 else (CHANNELS,)

    def column_source(self, workload: Conv2dWorkload, config: Config) -> ColumnSource:
        """The window tensor if it is stored."""
        if config["windows"] == STORED:
            return ColumnSource.WINDOWS
        return super().column_source(workload, config)

    def stored_bytes(self, workload: Conv2dWorkload, config: Config) -> int:
        """Bytes of the window tensor if it is stored."""
        return 4 * prod(window_shape(workload)) if config["windows"] == STORED else 0

    def reader(self, given: CudaOperands, config: Config) -> Callable[..., Expr]:
        """From block ``windows``, or from the image."""
        from tvmconv.tvm_api import te

        if config["windows"] == FUSED:
            return super().reader(given, config)
        w = given.workload
        area = w.out_height * w.out_width

        def transform(n: Expr, c: Expr, m: Expr, place: Expr) -> Expr:
            y = m * w.stride_h + place % w.kernel_h * w.dilation_h - w.pad_top
            x = place // w.kernel_h - w.pad_left
            return inside_image(given.data[n, c, y, x], y, x, w)

        windows = te.compute(window_shape(w), transform, name="windows")

        def read(tests: Sequence[Expr], c: Expr, row: Expr, s: Expr, p: Expr) -> Expr:
            q = p % area
            x = q % w.out_width * w.stride_w + s * w.dilation_w
            return zero_unless(tests, windows[p // area, c, q // w.out_width, x * w.kernel_h + row])

        return read
