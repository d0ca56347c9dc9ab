"""The constants of the cost models of GPUs, with unit and origin."""

from __future__ import annotations

from tvmconv.costs.constant import fitted

COUNT = "tvmconv explain MODEL --target cuda:sm_90 --layer NAME --show asm"
MEASURE = "tvmconv dev fit FILE, which fits the rates of the GPU's machine model"

_counted = fitted(
    "counted", "instructions in the machine code of nvcc 13.0 for sm_80 and sm_90", COUNT
)
LOOP = _counted(14.0, "instructions per slice", "a thread's loop beyond products and copies")
COPY_VECTOR = _counted(2.0, "instructions per vector", "copy of one vector of a slice")
SAVED_BY_PAIRS = _counted(
    8.0, "instructions per slice", "loop instructions that unrolled pairs save"
)
LOOP_TABLE = _counted(
    19.0, "instructions per slice", "the loop where the input is padded and a table has the tap"
)
LOOP_PADDED = _counted(
    30.0, "instructions per slice", "the loop where the input is padded, without a table"
)
GATHER = _counted(2.0, "instructions per value", "load and store of a gathered value")
GATHER_FOURS = _counted(1.25, "instructions per value", "the same by vectors of four")
ZERO = _counted(0.5, "instructions per value", "zeros of the padding, without a table")
DIVIDED_WINDOW = _counted(
    60.0, "instructions per value", "channel, row and column of a value of a window"
)
DIVIDED_LINE = _counted(
    30.0, "instructions per value", "channel and place of a value of a row or column"
)
DIVIDED_WHOLE = _counted(
    10.0, "instructions per value", "the same in whole windows, where threads share columns"
)
DIVIDED_STORED = _counted(
    10.0, "instructions per value", "the same in stored windows, whose place is one number"
)
TESTS = _counted(2.4, "instructions per row or column", "tests of a row or column of the window")
TESTED_BOTH = _counted(
    1.0, "instructions per value", "tests of a value of a window with several rows and columns"
)
WRITTEN = _counted(30.0, "instructions per value", "place and store of a value of stored windows")
MMA_PLACE = _counted(2.5, "registers per value", "address of a gathered value of tensor-core tiles")
MMA_LOOP = _counted(36.0, "instructions per slice", "the loop of tensor-core tiles")
MMA_GATHER = _counted(
    4.3, "instructions per value", "a gathered value of tensor-core tiles, with address and test"
)
ROUND_TF32 = _counted(3.0, "instructions per dword", "rounding to TF32")
ROUND_FP16 = _counted(1.0, "instructions per dword", "rounding to FP16")
TRANSFORM_PLACE = _counted(
    70.0, "instructions per thread", "place of a thread of a Winograd transform"
)
TRANSFORM_ROW = _counted(6.0, "instructions per row", "test of a row of a Winograd transform")
DEPTHWISE_PLACE = _counted(
    30.0, "instructions per thread", "place of a thread of a depthwise kernel"
)
DEPTHWISE_ROW = _counted(3.0, "instructions per row", "test of a row of a depthwise kernel")

_h200 = fitted(
    "fitted",
    "180 direct kernels of MobileNetV2's layers at batch 1 on an H200: 0.61 ns for each of up to "
    "1.2 million blocks that share a sum, 153 ns a product on images of 7x7",
    "tvmconv bench run --suite mobilenetv2 --target cuda --algorithms direct:share=all",
)
_assumed = fitted("assumed", "nothing: assumed until a GPU measures it", MEASURE)
_issued = fitted("fitted", "380 kernels on an H200, of batch 1 to 128", MEASURE)
_h100 = fitted(
    "fitted",
    "206 kernels of 13 layers at batch 1 to 128 on an H100, in TF32 and FP16",
    "tvmconv bench run --suite resnet50 --batch 32 --target cuda "
    "--algorithms implicit_gemm_mma:m=all:p=all:wm=all:wp=all",
)
MMA_EXPOSED = _h100(
    6.4, "warps", "time of a tensor-core warp that others must fill, over its busy time"
)
MMA_PARTIAL = _h100(
    1.0,
    "times",
    "results that cross memory again, where a fragment's 8 pixels are not a sector of L2",
)
ISSUED = _issued(
    0.765,
    "share of issue slots",
    "rate at which kernels issue, of the peak; FILLED is for the warps of a grid",
)
BARRIER = _assumed(40.0, "issue slots per slice", "a second barrier for a single buffer")
WAIT = _assumed(20.0, "issue slots per slice", "the barrier of a slice")
ENDS = _assumed(24.0, "values of a slice", "time before the first product and after the last")
FILLED = _assumed(0.95, "share of issue slots", "slots that enough warps fill")
WAITS_FOR_BYTES = _assumed(0.8, "share of speed", "speed where a slice waits for its bytes")
HIDDEN = _assumed(0.9, "share", "the shorter of memory and computing that the longer hides")
SHARED_TIME = _assumed(0.2, "share", "delay by the units that are not the slowest")
FULL = _assumed(0.88, "share of issue slots", "FMAs in the main loop of a full tile, at least")
LONGER = _assumed(
    1.1, "ratio", "longest full tile over the fastest of all: small blocks fill small grids better"
)
SUM_INSTRUCTIONS = _assumed(
    10.0, "instructions per product", "two loads with addresses and bounds, and the FMA"
)
SUM_LATENCY = _assumed(25.0, "cycles per product", "until a thread goes on, mostly a load from L1")
SUM_PLACE = _assumed(10.0, "instructions per product", "a tap's place, where threads share a sum")
SUM_ADDING = _assumed(200.0, "cycles per sum", "adding up, where threads share a sum")
SUM_TESTED = _h200(
    300.0, "cycles per product", "load from L2, where a test in the loop keeps loads apart"
)
SUM_BLOCK = _h200(
    1.22, "cycles of the GPU per sum", "start of the block of threads that share a sum"
)
TRANSFORM_LATENCY = _assumed(
    1200.0, "cycles per transform", "first load to last store of an idle GPU"
)
KEPT = _assumed(0.5, "share of L2", "results that the next kernel still finds there")

_guide = fitted("guide", "the CUDA Programming Guide", MEASURE)
BANKS = _guide(4.0, "issue slots per access", "32 banks that give a warp one value each")
SECTOR = _guide(32.0, "bytes", "what a load reads of L2 at least")
L1_RATE = _guide(128.0, "bytes per cycle", "a multiprocessor's L1")
