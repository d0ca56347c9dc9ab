"""The constants of the cost models of scalable vectors, with unit and origin."""

from __future__ import annotations

from tvmconv.costs.constant import Fit, Fitted

ESTIMATE = "tvmconv bench --estimate --suite resnet50 --target neoverse-v1+sve"

_SEGMENTS = Fit("scalable", "estimates by llvm-mca for Neoverse V1, N2 and V2", ESTIMATE)
GATHER_CYCLES = Fitted(
    0.5, "cycles per segment", "a gather: 0.33 (Neoverse V1) to 1.0 (N2, V2)", _SEGMENTS
)
GEMM_TILE = Fitted(
    30.0, "cycles per tile", "beginning and end of a tile of a packed product", _SEGMENTS
)
GEMM_STORE = Fitted(1.0, "cycles per accumulator", "an accumulator that is added to C", _SEGMENTS)
PACKED_VECTOR = Fitted(1.0, "cycles per vector", "a packed vector beyond its load", _SEGMENTS)
FEW_BLOCKS = Fitted(
    1.3, "ratio", "Winograd tiles of fewer than four output blocks: 1.16 to 1.38", _SEGMENTS
)
DEPTHWISE_TILE = Fitted(6.0, "cycles per tile", "addresses and predicates of a tile", _SEGMENTS)
