"""The constants of the cost models of CPUs with vectors of fixed length, with unit and origin."""

from __future__ import annotations

from tvmconv.costs.constant import Fit, Fitted

# A fit moves constants by itself. The other commands measure what a fit by hand needs: some
# constants only rank tiles, and change no prediction of a given config.
FIT = "tvmconv dev check-model --fit --suite resnet18 --suite vgg16"
CHECK_FLOAT = "tvmconv dev check-model --suite resnet18 --suite mobilenetv2"
CHECK_INTEGERS = "tvmconv bench run --suite quantised_winograd"
BENCH_GEMM = "tvmconv bench run --suite sgemm"
BENCH_REPRODUCTIONS = "tvmconv bench run --suite winograd16 --algorithms winograd_eta:steps"

_MICROKERNEL = Fit("microkernel", "direct convolution; the measurements were not kept", FIT)
STEP_CYCLES = Fitted(0.25, "cycles per step", "loop control of the reduction", _MICROKERNEL)
TILE_CYCLES = Fitted(40.0, "cycles per tile", "beginning and end of a register tile", _MICROKERNEL)
STORE_CYCLES = Fitted(
    2.0, "cycles per accumulator", "zero and store of one accumulator", _MICROKERNEL
)
CROWDED = Fitted(
    1.5,
    "ratio",
    "FMAs that wait for loads: Winograd's by 7 accumulators took 15 % longer than by 14",
    _MICROKERNEL,
)
L2_SHOWN = Fitted(0.25, "share", "weights' way from L2 that FMAs do not hide", _MICROKERNEL)

_DIRECT = Fit("direct", "ResNet-50 layers on Zen 4", CHECK_FLOAT)
ROWS_FETCHED = Fitted(1.04, "ratio", "instruction fetches of unrolled border rows", _DIRECT)
DWORD_ROWS_FETCHED = Fitted(
    1.02,
    "ratio",
    "the same for dwords: tiles of several rows took 0.95 of the time on 7x7 planes",
    _DIRECT,
)
ONE_BLOCK = Fitted(
    1.1, "ratio", "tiles of one output block over tiles of two, which share each pixel", _DIRECT
)

_WIDE_WEIGHTS = Fit(
    "wide_weights", "INT8 layers of ResNet-50 on Zen 4, AVX2 and VNNI", CHECK_INTEGERS
)
ONE_BLOCK_STEP = Fitted(
    0.012,
    "cycles per accumulator and step",
    "broadcasts of tiles of one block: 2x6 took 0.96 to 1.01 of the time of 1x14",
    _WIDE_WEIGHTS,
)
WIDENED = Fitted(
    1.25, "cycles per vector", "widening a vector before the tiles that use it", _WIDE_WEIGHTS
)
WIDENED_BY_FIRST = Fitted(
    0.5, "cycles per vector", "widening a vector in the first tile that uses it", _WIDE_WEIGHTS
)
FEW_ACCUMULATORS = Fitted(
    0.95, "ratio", "measured over predicted cycles of tiles with few accumulators", _WIDE_WEIGHTS
)
UNEVEN_TASKS = Fitted(1.05, "ratio", "largest imbalance of tasks that still pays", _WIDE_WEIGHTS)

_DIRECT_BYTES = Fit("direct_bytes", "INT8 layers of ResNet-50 on Zen 4, AVX2", CHECK_INTEGERS)
PAIRED_PRODUCTS = Fitted(
    1.5,
    "products per step and pixel",
    "multiplications of a step that shares its widening with another step",
    _DIRECT_BYTES,
)
HELD_UP = Fitted(
    0.125,
    "cycles per step and pixel",
    "other instructions of paired steps: loops took 0.88 of the time, with 3/4 of the products",
    _DIRECT_BYTES,
)
SHORTEST_STEP = Fitted(
    4.25,
    "cycles per step",
    "a step of few pixels: rows of 14 as 12 and 2 took 1.065 times as long as two of 7",
    _DIRECT_BYTES,
)
COMPLEMENT = Fitted(
    0.3, "share of a step", "sign complement inside a step, 1.19 times by itself", _DIRECT_BYTES
)
ALONE_BY_COMPLEMENTS = Fitted(
    1.7,
    "steps per complemented step",
    "steps without a partner; with normal weights",
    _DIRECT_BYTES,
)
PACK_STORE = Fitted(
    1.75,
    "cycles per store",
    "packing a tile: a second byte order gained 2 to 4 % with 128 outputs",
    _DIRECT_BYTES,
)

_DIRECT_TILES = Fit(
    "direct_tiles", "loops of four AMX tiles of sums on a Xeon with AMX", CHECK_INTEGERS
)
GROUP_CYCLES = Fitted(
    140.0, "cycles per group", "a group of AMX tiles beyond its steps", _DIRECT_TILES
)
TILE_STEP = Fitted(1.2, "ratio", "a step over the cycles of the tile unit alone", _DIRECT_TILES)
EPILOGUE_SHOWN = Fitted(0.3, "share", "epilogue that tile products do not hide", _DIRECT_TILES)
REQUANTIZE = Fitted(
    4.6, "cycles per vector", "requantization next to tile products; alone 2.5", _DIRECT_TILES
)
QUANTIZE_STEP = Fitted(4.0, "cycles per vector", "a quantize step of an epilogue", _DIRECT_TILES)
ADD_STEP = Fitted(2.4, "cycles per vector", "a residual of an epilogue", _DIRECT_TILES)
COPIED = Fitted(1.5, "cycles per piece", "copy of one piece of the image", _DIRECT_TILES)

_DIRECT_FIRST = Fit("direct_first", "first layers; the measurements were not kept", CHECK_FLOAT)
STORE_SHARE = Fitted(
    8 / 15, "share of the rate after L2", "stores with their reads for ownership", _DIRECT_FIRST
)

_DEPTHWISE = Fit("depthwise", "depthwise layers; the measurements were not kept", CHECK_FLOAT)
DEPTHWISE_L2 = Fitted(
    4 / 9, "share of the rate of L2", "loads with so few FMAs between them", _DEPTHWISE
)

_BLOCKS = Fit("panel_blocks", "119 pairs of block sizes and 58 layers", CHECK_FLOAT)
TRAFFIC_SHOWN = Fitted(
    0.25, "share", "traffic of packed panels that computing does not hide", _BLOCKS
)
WEIGHT_SHARE = Fitted(
    0.96154, "share of memory's rate", "weights that are read again; some come from L3", _BLOCKS
)
PANEL_WRITE = Fitted(3.0, "reads", "a write of a panel after L2", _BLOCKS)
BLOCK_STAYS = Fitted(0.7, "share of L2", "an im2col block that stays while weights pass", _BLOCKS)
VISIT_CYCLES = Fitted(
    200.0, "cycles per group", "first use of pages and panels by a block's next group", _BLOCKS
)

_IM2COL = Fit(
    "im2col",
    "twelve INT8 layers on Zen 4, estimates for Cortex-A72 and Neoverse N1",
    CHECK_INTEGERS,
)
SLOWER_STREAM = Fitted(
    1.25,
    "ratio",
    "activation traffic over direct convolution's: panels are written, then read",
    _IM2COL,
)
BROADCAST_DWORDS = Fitted(
    1.3,
    "ratio",
    "INT8 products over direct convolution's, broadcast dwords: at most 1.29 on Zen 4",
    _IM2COL,
)
BY_LANE = Fitted(
    1.06,
    "ratio",
    "INT8 products over direct convolution's, by lane: 0.92 to 1.07 by estimates",
    _IM2COL,
)

_GEMM = Fit("gemm", "matrix products with AVX2 and AVX-512, docs/notes/gemm.md", BENCH_GEMM)
GEMM_L2 = Fitted(
    0.5, "share of L2", "a block of A and two slivers of B: larger blocks were slower", _GEMM
)
PRODUCT_STEP = Fitted(
    2.0, "cycles per step", "a step that FMAs do not hide, beyond direct convolution's", _GEMM
)
COPIED_VECTOR = Fitted(
    6.0, "cycles per vector", "copying a vector of columns or windows, with its misses", _GEMM
)

_IM2WIN = Fit(
    "im2win", "im2win against direct convolution on 120 layers, docs/notes/im2win.md", CHECK_FLOAT
)
STRIP_COPY = Fitted(3.0, "cycles per vector", "copy of one vector into a strip", _IM2WIN)
STRIP_LINE = Fitted(2.0, "cycles per line and tile", "late arrival of a line of a strip", _IM2WIN)
STRIP_WEIGHTS = Fitted(
    1.5, "ratio", "waiting for weights over direct convolution, which prefetches them", _IM2WIN
)

_STRASSEN = Fit(
    "strassen", "estimates for Neoverse N1 and Cortex-A72, docs/notes/strassen.md", CHECK_FLOAT
)
STRASSEN_WORK = Fitted(
    0.75, "cycles per vector and FMA rate", "one vector that is read, added and written", _STRASSEN
)

_WINOGRAD = Fit("winograd", "measured calls of docs/notes/winograd.md", FIT)
L3_SHARE = Fitted(0.912, "share of the rate of L3", "traffic of the stages, read", _WINOGRAD)
MEMORY_SHARE = Fitted(0.84923, "share of memory's rate", "traffic of the stages, read", _WINOGRAD)
WRITE_COST = Fitted(1.5, "reads", "a write, whose line is read first", _WINOGRAD)
STREAM_SHOWN = Fitted(0.5, "share", "weights from memory that computing does not hide", _WINOGRAD)
AGAIN_SHOWN = Fitted(0.35, "share", "weights that later regions read again", _WINOGRAD)
SCRATCH_SHOWN = Fitted(1.0, "share", "transformed values that computing does not hide", _WINOGRAD)
PRODUCT_COST = Fitted(
    1.05208, "ratio", "cycles of the products over cycles of their FMAs", _WINOGRAD
)
PRODUCT_STORE = Fitted(12.5, "cycles per product", "store of one vector of products", _WINOGRAD)
PANEL_SHOWN = Fitted(
    48.0, "bytes per tile", "weights of a panel from L2, over the tiles that use them", _WINOGRAD
)
TRANSFORM_COST = Fitted(
    1.40625,
    "cycles per instruction",
    "arithmetic of a transform, loads and stores included",
    _WINOGRAD,
)
LONG_TRANSFORM_COST = Fitted(
    0.9375, "cycles per instruction", "more for each axis whose rows leave the registers", _WINOGRAD
)
WINOGRAD_CALL = Fitted(4167.0, "cycles per stage", "fixed cost of a call", _WINOGRAD)
REGION_L2 = Fitted(
    0.9, "share of L2", "weights and transformed values that stay for the next region", _WINOGRAD
)
SCRATCH_L2 = Fitted(0.6, "share of L2", "transformed values of a region that stay", _WINOGRAD)
FOLDED_SHARE = Fitted(
    0.97391,
    "ratio",
    "a folded broadcast over one of direct convolution: values are read in order",
    _WINOGRAD,
)

_TRANSFORMS = Fit("transforms", "the transform matrices of F(2) to F(6): counted", CHECK_FLOAT)
SHARED_TERMS = Fitted(
    0.4,
    "share of a sum's terms",
    "terms left where rows of opposite points share parts",
    _TRANSFORMS,
)

_ETA = Fit("winograd_eta", "the twelve calls of docs/notes/winograd.md", BENCH_REPRODUCTIONS)
ETA_L3 = Fitted(
    1.6, "share of the rate of L3", "traffic of the stages, written bytes counted twice", _ETA
)
ETA_MEMORY = Fitted(
    1.058, "share of memory's rate", "traffic of the stages, written bytes counted twice", _ETA
)
ETA_CALL = Fitted(6000.0, "cycles per block", "fixed cost of a block of eta and channels", _ETA)

_PARTS = Fit("im2col", "one-dimensional layers with 64 kernel elements on Zen 4", CHECK_FLOAT)
PART_SUM = Fitted(
    3.0, "cycles per accumulator", "partial sums that are read, added to and written", _PARTS
)

_PIXEL_CONV = Fit("pixel_conv", "layers of few channels on Zen 4", CHECK_FLOAT)
MISALIGNED = Fitted(2.0, "ratio", "loads that begin inside a cache line over others", _PIXEL_CONV)
STRIDED_COPY = Fitted(8.0, "vectors", "read for each vector of strided positions", _PIXEL_CONV)
INTERLEAVED = Fitted(0.5, "cycles per output", "storing interleaved outputs", _PIXEL_CONV)
