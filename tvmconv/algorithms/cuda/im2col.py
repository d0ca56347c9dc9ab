"""im2col on GPUs: a kernel writes the matrix of all windows, and another kernel multiplies it.

The matrix ``(C Hf Wf, N Ho Wo)`` of the whole batch has pixels innermost, so that the GEMM reads
vectors. Only the first kernel depends on padding, strides and dilation.
"""

from __future__ import annotations

from tvmconv.algorithms.base import images_only
from tvmconv.algorithms.cuda.base import MOST_VALUES
from tvmconv.algorithms.cuda.implicit_gemm import ColumnSource, ImplicitGemm
from tvmconv.algorithms.cuda.slices import WINDOW, Slices
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine


class Im2col(ImplicitGemm):
    """One product for each group, as :class:`ImplicitGemm`, of columns in global memory."""

    name = "im2col"
    slice_knob = False
    stages = (("packing", ("columns",)), ("product", ("conv2d", "output")))

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Layers that are not GEMMs, volumes, and matrices of more than 2**31 values."""
        w = workload
        if reason := super().unsuited(w, machine) or images_only(w):
            return reason
        values = w.taps * w.groups * w.batch * w.out_height * w.out_width
        if values > MOST_VALUES:
            return f"its matrix has {values} values, and kernels index {MOST_VALUES}"
        return None

    def slices(self, workload: Conv2dWorkload, config: Config) -> Slices:
        """Rows of the matrix in the order of weights, for any window."""
        return Slices(workload, WINDOW, config.int("k"))

    def slice_kinds(self, workload: Conv2dWorkload) -> tuple[str, ...]:
        """Whole windows."""
        return (WINDOW,)

    def column_source(self, workload: Conv2dWorkload, config: Config) -> ColumnSource:
        """The matrix."""
        return ColumnSource.VECTORS

    def stored_bytes(self, workload: Conv2dWorkload, config: Config) -> int:
        """The matrix, of whole slices and tiles."""
        w, slices, tile = workload, self.slices(workload, config), config.int("p")
        pixels = -(-w.batch * w.out_height * w.out_width // tile) * tile
        return 4 * w.groups * slices.count * slices.size * pixels
