"""The constants of the cost models of scalable vectors, with unit and origin."""

from __future__ import annotations

from tvmconv.costs.constant import fitted

ESTIMATE = "tvmconv bench --estimate --suite resnet50 --target neoverse-v1+sve"

_segments = fitted("scalable", "estimates by llvm-mca for Neoverse V1, N2 and V2", ESTIMATE)
GATHER_CYCLES = _segments(0.5, "cycles per segment", "a gather: 0.33 (Neoverse V1) to 1.0 (N2, V2)")
GEMM_TILE = _segments(30.0, "cycles per tile", "beginning and end of a tile of a packed product")
GEMM_STORE = _segments(1.0, "cycles per accumulator", "an accumulator that is added to C")
PACKED_VECTOR = _segments(1.0, "cycles per vector", "a packed vector beyond its load")
FEW_BLOCKS = _segments(
    1.3, "ratio", "Winograd tiles of fewer than four output blocks: 1.16 to 1.38"
)
DEPTHWISE_TILE = _segments(6.0, "cycles per tile", "addresses and predicates of a tile")
POOL_GATHER = _segments(0.4, "cycles per segment", "a gather of pooling on Neoverse V1")
FINISHED_VECTOR = _segments(
    4.0,
    "cycles per vector",
    "NEON code from four accumulators in memory to results, with a residual",
)
COPIED_DWORD = _segments(1.5, "cycles per dword", "a dword of a padded INT8 image")

_stems = fitted(
    "scalable stems",
    "estimates by llvm-mca for Neoverse V1: 3x3, 7x7 and 11x11 kernels, 12 tiles",
    "tvmconv bench --estimate --suite alexnet --target neoverse-v1+sve",
)
IMAGE_SQUARES = _stems(
    1.0, "cycles per position", "copy of NCHW channels into blocks: 0.5, and as much from L2"
)
IMAGE_ELEMENTS = _stems(1.2, "cycles per position", "copy of NHWC channels into blocks")
STEM_TILE = _stems(6.0, "cycles per tile", "beginning and end of a tile of vectors")
STEM_ROW = _stems(5.0, "cycles per kernel row", "the loop over a kernel row of a tile")
