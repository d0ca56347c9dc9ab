"""im2win on GPUs: the product of filters and windows that lie in one piece, column by column.

Lu (2023), section 4.2: output channels are the rows of the product, pixels of all images its
columns, and what it sums over runs through a window with the kernel's rows innermost. A kernel
writes the window tensor ``X[n, c, m, k Hf + u] = I[n, c, m s + u, k]``, padding included, and
another one multiplies (``windows=stored``); or the product gathers from the image what the tensor
would hold (``windows=fused``), which is implicit GEMM in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvmconv.algorithms.base import images_only
from tvmconv.algorithms.cuda.base import CudaOperands
from tvmconv.algorithms.cuda.implicit_gemm import ImplicitGemm, Source
from tvmconv.algorithms.cuda.slices import CHANNELS, COLUMN_KINDS, Slices
from tvmconv.algorithms.gemm.im2win import columns
from tvmconv.algorithms.padding import inside_image, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr

STORED, FUSED = "stored", "fused"


def window_shape(workload: Conv2dWorkload) -> tuple[int, int, int, int]:
    """``(N, C, Ho, Wi Hf)``, Wi the columns that some window touches, padding included."""
    w = workload
    return (w.batch, w.in_channels, w.out_height, columns(w) * w.kernel_h)


class Im2win(ImplicitGemm):
    """One product for each group, as :class:`ImplicitGemm`.

    Knobs read by the expression beside those: ``windows``.
    """

    name = "im2win"
    blocks = ("windows", "columns", "conv2d", "output")
    stages = (
        ("window transform", ("windows",)),
        ("product", ("columns", "conv2d", "output")),
    )

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """What is no product of matrices, and volumes."""
        return super().unsuited(workload, machine) or images_only(workload)

    def slices(self, workload: Conv2dWorkload, config: Config) -> Slices:
        """The kernel's rows are innermost."""
        return Slices(workload, str(config["slice"]), config.int("k"), by_columns=True)

    def slice_kinds(self, workload: Conv2dWorkload) -> tuple[str, ...]:
        """Columns in place of rows."""
        return COLUMN_KINDS if len(super().slice_kinds(workload)) > 1 else (CHANNELS,)

    def source(self, workload: Conv2dWorkload, config: Config) -> Source:
        """The window tensor where it is stored."""
        if config["windows"] == STORED:
            return Source.WINDOWS
        return super().source(workload, config)

    def stored_bytes(self, workload: Conv2dWorkload, config: Config) -> int:
        """The window tensor where it is stored."""
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
