"""The constants of the cost models of CPUs with vectors of fixed length, with unit and origin."""

from __future__ import annotations

from tvmconv.costs.constant import fitted

# A fit moves constants by itself. The other commands measure what a fit by hand needs: some
# constants only rank tiles, and change no prediction of a given config.
FIT = "tvmconv dev check-model --fit --suite resnet18 --suite vgg16"
CHECK_FLOAT = "tvmconv dev check-model --suite resnet18 --suite mobilenetv2"
CHECK_INTEGERS = "tvmconv bench run --suite quantised_winograd"
BENCH_GEMM = "tvmconv bench run --suite sgemm"
BENCH_REPRODUCTIONS = "tvmconv bench run --suite winograd16 --algorithms winograd_eta:steps"

_microkernel = fitted("microkernel", "direct convolution; the measurements were not kept", FIT)
STEP_CYCLES = _microkernel(0.25, "cycles per step", "loop control of the reduction")
TILE_CYCLES = _microkernel(40.0, "cycles per tile", "beginning and end of a register tile")
STORE_CYCLES = _microkernel(2.0, "cycles per accumulator", "zero and store of one accumulator")
CROWDED = _microkernel(
    1.5,
    "ratio",
    "FMAs that wait for loads: Winograd's by 7 accumulators took 15 % longer than by 14",
)
WAITING = _microkernel(
    0.138,
    "share of the latency",
    "8 sums of two units on Zen 5 took 4.55 cycles, where FMAs and their latency take 4",
)
L2_SHOWN = _microkernel(0.25, "share", "weights' way from L2 that FMAs do not hide")

_direct = fitted("direct", "ResNet-50 layers on Zen 4", CHECK_FLOAT)
ROWS_FETCHED = _direct(1.04, "ratio", "instruction fetches of unrolled border rows")
DWORD_ROWS_FETCHED = _direct(
    1.02, "ratio", "the same for dwords: tiles of several rows took 0.95 of the time on 7x7 planes"
)
ONE_BLOCK = _direct(
    1.1, "ratio", "tiles of one output block over tiles of two, which share each pixel"
)

_wide_weights = fitted(
    "wide_weights", "INT8 layers of ResNet-50 on Zen 4, AVX2 and VNNI", CHECK_INTEGERS
)
ONE_BLOCK_STEP = _wide_weights(
    0.012,
    "cycles per accumulator and step",
    "broadcasts of tiles of one block: 2x6 took 0.96 to 1.01 of the time of 1x14",
)
WIDENED = _wide_weights(1.25, "cycles per vector", "widening a vector before the tiles that use it")
WIDENED_BY_FIRST = _wide_weights(
    0.5, "cycles per vector", "widening a vector in the first tile that uses it"
)
FEW_ACCUMULATORS = _wide_weights(
    0.95, "ratio", "measured over predicted cycles of tiles with few accumulators"
)
UNEVEN_TASKS = _wide_weights(1.05, "ratio", "largest imbalance of tasks that still pays")

_direct_bytes = fitted("direct_bytes", "INT8 layers of ResNet-50 on Zen 4, AVX2", CHECK_INTEGERS)
PAIRED_PRODUCTS = _direct_bytes(
    1.5,
    "products per step and pixel",
    "multiplications of a step that shares its widening with another step",
)
HELD_UP = _direct_bytes(
    0.125,
    "cycles per step and pixel",
    "other instructions of paired steps: loops took 0.88 of the time, with 3/4 of the products",
)
SHORTEST_STEP = _direct_bytes(
    4.25,
    "cycles per step",
    "a step of few pixels: rows of 14 as 12 and 2 took 1.065 times as long as two of 7",
)
COMPLEMENT = _direct_bytes(
    0.3, "share of a step", "sign complement inside a step, 1.19 times by itself"
)
ALONE_BY_COMPLEMENTS = _direct_bytes(
    1.7, "steps per complemented step", "steps without a partner; with normal weights"
)
PACK_STORE = _direct_bytes(
    1.75, "cycles per store", "packing a tile: a second byte order gained 2 to 4 % with 128 outputs"
)

_direct_tiles = fitted(
    "direct_tiles", "loops of four AMX tiles of sums on a Xeon with AMX", CHECK_INTEGERS
)
GROUP_CYCLES = _direct_tiles(140.0, "cycles per group", "a group of AMX tiles beyond its steps")
TILE_STEP = _direct_tiles(1.2, "ratio", "a step over the cycles of the tile unit alone")
EPILOGUE_SHOWN = _direct_tiles(0.3, "share", "epilogue that tile products do not hide")
REQUANTIZE = _direct_tiles(
    4.6, "cycles per vector", "requantization next to tile products; alone 2.5"
)
QUANTIZE_STEP = _direct_tiles(4.0, "cycles per vector", "a quantize step of an epilogue")
ADD_STEP = _direct_tiles(2.4, "cycles per vector", "a residual of an epilogue")
COPIED = _direct_tiles(1.5, "cycles per piece", "copy of one piece of the image")

_direct_first = fitted("direct_first", "first layers; the measurements were not kept", CHECK_FLOAT)
STORE_SHARE = _direct_first(
    8 / 15, "share of the rate after L2", "stores with their reads for ownership"
)

_lanes = fitted(
    "direct_first_lanes",
    "estimates by llvm-mca of 470 tiles of seven first layers, five Arm CPUs",
    "tvmconv bench --estimate --layer ic3ih224oc64kh3ph1:nchw --target neoverse-n1",
)
LANE_TILE = _lanes(6.0, "FMAs per tile", "beginning and end of a tile, in the time of FMAs")
LANE_STORE = _lanes(4.5, "FMAs per accumulator", "zero, epilogue and store of an accumulator")
LANE_LOOP = _lanes(11.0, "FMAs per kernel row", "beginning and end of a loop over taps")
LANE_TEST = _lanes(3.0, "FMAs per kernel row", "test of a row of taps, in tiles of one row")
LANE_REPLICATED = _lanes(0.7, "FMAs per tap", "a load with replication, which advances a pointer")
LANE_ADDRESS = _lanes(
    2.5, "FMAs per block and row", "addresses of stores, which in-order cores do not hide"
)

_depthwise = fitted("depthwise", "depthwise layers; the measurements were not kept", CHECK_FLOAT)
DEPTHWISE_L2 = _depthwise(4 / 9, "share of the rate of L2", "loads with so few FMAs between them")

_blocks = fitted("panel_blocks", "119 pairs of block sizes and 58 layers", CHECK_FLOAT)
TRAFFIC_SHOWN = _blocks(0.25, "share", "traffic of packed panels that computing does not hide")
WEIGHT_SHARE = _blocks(
    0.96154, "share of memory's rate", "weights that are read again; some come from L3"
)
PANEL_WRITE = _blocks(3.0, "reads", "a write of a panel after L2")
BLOCK_STAYS = _blocks(0.7, "share of L2", "an im2col block that stays while weights pass")
VISIT_CYCLES = _blocks(
    200.0, "cycles per group", "first use of pages and panels by a block's next group"
)

_partition = fitted(
    "partition",
    "SqueezeNet and MobileNetV2 on two cores of Zen 5, which at times share an L3 and at times not",
    CHECK_FLOAT,
)
CROSSING = _partition(
    0.3,
    "share of the rate of L3",
    "lines that another core wrote: 3 bytes a cycle without a common L3, 20 and hidden with one",
)
EDGE = _partition(
    350.0, "cycles per block of channels", "arrival of another core's rows at the edge of a band"
)

_im2col = fitted(
    "im2col",
    "twelve INT8 layers on Zen 4, estimates for Cortex-A72 and Neoverse N1",
    CHECK_INTEGERS,
)
SLOWER_STREAM = _im2col(
    1.25, "ratio", "activation traffic over direct convolution's: panels are written, then read"
)
BROADCAST_DWORDS = _im2col(
    1.3, "ratio", "INT8 products over direct convolution's, broadcast dwords: at most 1.29 on Zen 4"
)
BY_LANE = _im2col(
    1.06, "ratio", "INT8 products over direct convolution's, by lane: 0.92 to 1.07 by estimates"
)

_gemm = fitted("gemm", "matrix products with AVX2 and AVX-512, docs/notes/gemm.md", BENCH_GEMM)
GEMM_L2 = _gemm(0.5, "share of L2", "a block of A and two slivers of B: larger blocks were slower")
PRODUCT_STEP = _gemm(
    2.0, "cycles per step", "a step that FMAs do not hide, beyond direct convolution's"
)
COPIED_VECTOR = _gemm(
    6.0, "cycles per vector", "copying a vector of columns or windows, with its misses"
)

_im2win = fitted(
    "im2win", "im2win against direct convolution on 120 layers, docs/notes/im2win.md", CHECK_FLOAT
)
STRIP_COPY = _im2win(3.0, "cycles per vector", "copy of one vector into a strip")
STRIP_LINE = _im2win(2.0, "cycles per line and tile", "late arrival of a line of a strip")
STRIP_WEIGHTS = _im2win(
    1.5, "ratio", "waiting for weights over direct convolution, which prefetches them"
)

_strassen = fitted(
    "strassen", "estimates for Neoverse N1 and Cortex-A72, docs/notes/strassen.md", CHECK_FLOAT
)
STRASSEN_WORK = _strassen(
    0.75, "cycles per vector and FMA rate", "one vector that is read, added and written"
)

_dense_strassen = fitted(
    "dense_strassen",
    "layers of ViT-B and Whisper on Zen 5",
    "tvmconv bench run --layer mb197ic768ih1oc3072kh1:nc --algorithms dense,dense_strassen",
)
STRASSEN_SHOWN = _dense_strassen(
    0.45, "share", "sums beyond L2 for each panel of weights, and weights for each further region"
)
STRASSEN_MOVED = _dense_strassen(1.5, "ratio", "reading data and writing results while no FMAs run")
STRASSEN_READ = _dense_strassen(
    0.15, "share of memory's time", "first read of weights, which are larger"
)
_image_strassen = fitted(
    "image_strassen",
    "131 configurations of twelve 1x1 layers on Zen 5, docs/notes/strassen.md",
    "tvmconv bench run --layer ic512ih28oc256kh1 --algorithms direct,strassen",
)
STRASSEN_IMAGE_WORK = _image_strassen(
    1.3, "cycles per vector and FMA rate", "one vector that is read, added and written"
)
STRASSEN_FIRST = _image_strassen(
    0.6, "share of memory's time, over tiles of a panel", "weights that few tiles prefetch"
)
STRASSEN_FAR = _image_strassen(
    0.25, "share of the last cache", "sums of a region that it keeps, next to other data"
)
STRASSEN_SUMS = _image_strassen(0.8, "share", "sums beyond L2 for each group of output blocks")
STRASSEN_AGAIN = _image_strassen(
    0.5, "share of the time of L3", "weights that each further region reads again"
)

_winograd = fitted("winograd", "measured calls of docs/notes/winograd.md", FIT)
L3_SHARE = _winograd(0.912, "share of the rate of L3", "traffic of the stages, read")
MEMORY_SHARE = _winograd(0.84923, "share of memory's rate", "traffic of the stages, read")
WRITE_COST = _winograd(1.5, "reads", "a write, whose line is read first")
STREAM_SHOWN = _winograd(0.5, "share", "weights from memory that computing does not hide")
ON_DEMAND = _winograd(
    0.26, "share of memory's rate", "weights that arrive without prefetches, after other prefetches"
)
AGAIN_SHOWN = _winograd(0.35, "share", "weights that later regions read again")
SCRATCH_SHOWN = _winograd(1.0, "share", "transformed values that computing does not hide")
PRODUCT_COST = _winograd(1.05208, "ratio", "cycles of the products over cycles of their FMAs")
PRODUCT_STORE = _winograd(12.5, "cycles per product", "store of one vector of products")
PANEL_SHOWN = _winograd(
    0.375, "share", "weights' way from L2 that FMAs do not hide, if L1 does not keep the panel"
)
TRANSFORM_COST = _winograd(
    1.40625, "cycles per instruction", "arithmetic of a transform, loads and stores included"
)
LONG_TRANSFORM_COST = _winograd(
    0.9375, "cycles per instruction", "more for each axis whose rows leave the registers"
)
WINOGRAD_CALL = _winograd(4167.0, "cycles per stage", "fixed cost of a call")
REGION_L2 = _winograd(
    0.9, "share of L2", "weights and transformed values that stay for the next region"
)
SCRATCH_L2 = _winograd(0.6, "share of L2", "transformed values of a region that stay")
FOLDED_SHARE = _winograd(
    0.97391, "ratio", "a folded broadcast over one of direct convolution: values are read in order"
)

_transforms = fitted("transforms", "the transform matrices of F(2) to F(6): counted", CHECK_FLOAT)
SHARED_TERMS = _transforms(
    0.4, "share of a sum's terms", "terms left where rows of opposite points share parts"
)

_eta = fitted("winograd_eta", "the twelve calls of docs/notes/winograd.md", BENCH_REPRODUCTIONS)
ETA_L3 = _eta(1.6, "share of the rate of L3", "traffic of the stages, written bytes counted twice")
ETA_MEMORY = _eta(
    1.058, "share of memory's rate", "traffic of the stages, written bytes counted twice"
)
ETA_CALL = _eta(6000.0, "cycles per block", "fixed cost of a block of eta and channels")

_parts = fitted("im2col", "one-dimensional layers with 64 kernel elements on Zen 4", CHECK_FLOAT)
PART_SUM = _parts(3.0, "cycles per accumulator", "partial sums that are read, added to and written")

_direct_parts = fitted("direct_parts", "1024 channels by 64 columns on Zen 5", CHECK_FLOAT)
PART_PANEL = _direct_parts(0.25, "share of L2", "weights of a part: twice and half took 1.01")

_pixel_conv = fitted("pixel_conv", "layers of few channels on Zen 4", CHECK_FLOAT)
WEIGHT_BROADCAST = _pixel_conv(
    0.87, "ratio", "in 1x1 layers, a folded broadcast over one of direct convolution"
)
PIXELS_STORED = _pixel_conv(
    0.5, "share", "the same, zeros and stores of a tile beyond the next one's FMAs"
)
MISALIGNED = _pixel_conv(2.0, "ratio", "loads that begin inside a cache line over others")
STRIDED_COPY = _pixel_conv(8.0, "vectors", "read for each vector of strided positions")
INTERLEAVED = _pixel_conv(0.05, "cycles per output", "storing interleaved outputs")
SCATTERED = _pixel_conv(
    2.0, "cycles per output", "interleaving channels that are not whole blocks, in blocks"
)
PRODUCT_OF_PAIRS = _pixel_conv(
    0.6, "cycles per output", "writing a product, reading it, and writing it in pairs of columns"
)
PRODUCT_OF_SQUARES = _pixel_conv(1.0, "cycles per output", "the same with more columns")
TAP_VECTOR = _pixel_conv(2.0, "cycles", "adding a vector of products to a line")
TAP_SHARE = _pixel_conv(
    0.7, "ratio", "products of taps over Winograd: few outputs took less than Winograd's prediction"
)
TAP_ROW = _pixel_conv(2.0, "vectors", "beginning a row of products, over adding a vector")
FAR_COPY = _pixel_conv(2.0, "ratio", "copying vectors of an image larger than L1 over others")

_reorder = fitted(
    "reorder", "layout changes of 18 shapes on Zen 4, with AVX2 and AVX-512", CHECK_FLOAT
)
REORDER_CALL = _reorder(
    1500.0, "cycles per call", "a call, and data that the next layer no longer finds in L1"
)
REORDER_L2 = _reorder(0.58, "share of the rate of L2", "squares: shuffles, not loads, decide")
REORDER_L3 = _reorder(2.1, "share of the rate of L3", "the same with prefetches by the CPU")
REORDER_MEMORY = _reorder(0.85, "share of memory's rate", "the same, reads and writes")
