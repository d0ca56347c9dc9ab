"""im2col on GPUs: a kernel writes the matrix of all windows, and another one multiplies it.

The matrix ``(C Hf Wf, N Ho Wo)`` of the whole batch has pixels innermost, so that the product
reads it by vectors; where padding, strides and dilation were is known to the first kernel alone.
"""

from __future__ import annotations

from tvmconv.algorithms.base import images_only
from tvmconv.algorithms.cuda.base import MOST_VALUES
from tvmconv.algorithms.cuda.implicit_gemm import ImplicitGemm, Source
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
        """What is no product of matrices, volumes, and matrices of more than 2**31 values."""
        w = workload
        if reason := super().unsuited(w, machine) or images_only(w):
            return reason
        values = w.taps * w.groups * w.batch * w.out_height * w.out_width
        if values > MOST_VALUES:
            return f"its matrix has {values} values, and kernels index {MOST_VALUES}"
        return None

    def slices(self, workload: Conv2dWorkload, config: Config) -> Slices:
        """Rows of the matrix in the order of weights, whatever the window."""
        return Slices(workload, WINDOW, config.int("k"))

    def slice_kinds(self, workload: Conv2dWorkload) -> tuple[str, ...]:
        """Whole windows."""
        return (WINDOW,)

    def source(self, workload: Conv2dWorkload, config: Config) -> Source:
        """The matrix."""
        return Source.VECTORS

    def stored_bytes(self, workload: Conv2dWorkload, config: Config) -> int:
        """The matrix, of whole slices and tiles."""
        w, slices, tile = workload, self.slices(workload, config), config.int("p")
        pixels = -(-w.batch * w.out_height * w.out_width // tile) * tile
        return 4 * w.groups * slices.count * slices.size * pixels
