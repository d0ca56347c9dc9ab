"""The constants of the cost models of GPUs, with unit and origin."""

from __future__ import annotations

from tvmconv.costs.constant import Fit, Fitted

COUNT = "tvmconv explain MODEL --target cuda:sm_90 --layer NAME --show asm"
MEASURE = "tvmconv dev fit FILE, which fits the rates of the GPU's machine model"

_COUNTED = Fit(
    "counted", "instructions in the machine code of nvcc 13.0 for sm_80 and sm_90", COUNT
)
LOOP = Fitted(
    14.0, "instructions per slice", "a thread's loop beyond products and copies", _COUNTED
)
COPY_VECTOR = Fitted(2.0, "instructions per vector", "copy of one vector of a slice", _COUNTED)
SAVED_BY_PAIRS = Fitted(
    8.0, "instructions per slice", "loop instructions that unrolled pairs save", _COUNTED
)
LOOP_TABLE = Fitted(
    19.0,
    "instructions per slice",
    "the loop where the input is padded and a table has the tap",
    _COUNTED,
)
LOOP_PADDED = Fitted(
    30.0, "instructions per slice", "the loop where the input is padded, without a table", _COUNTED
)
GATHER = Fitted(2.0, "instructions per value", "load and store of a gathered value", _COUNTED)
GATHER_FOURS = Fitted(1.25, "instructions per value", "the same by vectors of four", _COUNTED)
ZERO = Fitted(0.5, "instructions per value", "zeros of the padding, without a table", _COUNTED)
DIVIDED_WINDOW = Fitted(
    60.0, "instructions per value", "channel, row and column of a value of a window", _COUNTED
)
DIVIDED_LINE = Fitted(
    30.0, "instructions per value", "channel and place of a value of a row or column", _COUNTED
)
DIVIDED_WHOLE = Fitted(
    10.0,
    "instructions per value",
    "the same in whole windows, where threads share columns",
    _COUNTED,
)
DIVIDED_STORED = Fitted(
    10.0,
    "instructions per value",
    "the same in stored windows, whose place is one number",
    _COUNTED,
)
TESTS = Fitted(
    2.4, "instructions per row or column", "tests of a row or column of the window", _COUNTED
)
TESTED_BOTH = Fitted(
    1.0,
    "instructions per value",
    "tests of a value of a window with several rows and columns",
    _COUNTED,
)
WRITTEN = Fitted(
    30.0, "instructions per value", "place and store of a value of stored windows", _COUNTED
)
MMA_PLACE = Fitted(
    2.5, "registers per value", "address of a gathered value of tensor-core tiles", _COUNTED
)
MMA_LOOP = Fitted(36.0, "instructions per slice", "the loop of tensor-core tiles", _COUNTED)
MMA_GATHER = Fitted(
    4.3,
    "instructions per value",
    "a gathered value of tensor-core tiles, with address and test",
    _COUNTED,
)
ROUND_TF32 = Fitted(3.0, "instructions per dword", "rounding to TF32", _COUNTED)
ROUND_FP16 = Fitted(1.0, "instructions per dword", "rounding to FP16", _COUNTED)
TRANSFORM_PLACE = Fitted(
    70.0, "instructions per thread", "place of a thread of a Winograd transform", _COUNTED
)
TRANSFORM_ROW = Fitted(
    6.0, "instructions per row", "test of a row of a Winograd transform", _COUNTED
)
DEPTHWISE_PLACE = Fitted(
    30.0, "instructions per thread", "place of a thread of a depthwise kernel", _COUNTED
)
DEPTHWISE_ROW = Fitted(3.0, "instructions per row", "test of a row of a depthwise kernel", _COUNTED)

_H200 = Fit(
    "fitted",
    "180 direct kernels of MobileNetV2's layers at batch 1 on an H200: 0.61 ns for each of up to "
    "1.2 million blocks that share a sum, 153 ns a product on images of 7x7",
    "tvmconv bench run --suite mobilenetv2 --target cuda --algorithms direct:share=all",
)
_ASSUMED = Fit("assumed", "nothing: assumed until a GPU measures it", MEASURE)
ISSUED = Fitted(
    0.765,
    "share of issue slots",
    "rate at which kernels issue, of the peak; FILLED is for the warps of a grid",
    Fit("fitted", "380 kernels on an H200, of batch 1 to 128", MEASURE),
)
BARRIER = Fitted(40.0, "issue slots per slice", "a second barrier for a single buffer", _ASSUMED)
WAIT = Fitted(20.0, "issue slots per slice", "the barrier of a slice", _ASSUMED)
ENDS = Fitted(
    24.0, "values of a slice", "time before the first product and after the last", _ASSUMED
)
FILLED = Fitted(0.95, "share of issue slots", "slots that enough warps fill", _ASSUMED)
WAITS_FOR_BYTES = Fitted(0.8, "share of speed", "speed where a slice waits for its bytes", _ASSUMED)
HIDDEN = Fitted(0.9, "share", "the shorter of memory and computing that the longer hides", _ASSUMED)
SHARED_TIME = Fitted(0.2, "share", "delay by the units that are not the slowest", _ASSUMED)
FULL = Fitted(
    0.88, "share of issue slots", "FMAs in the main loop of a full tile, at least", _ASSUMED
)
LONGER = Fitted(
    1.1,
    "ratio",
    "longest full tile over the fastest of all: small blocks fill small grids better",
    _ASSUMED,
)
SUM_INSTRUCTIONS = Fitted(
    10.0, "instructions per product", "two loads with addresses and bounds, and the FMA", _ASSUMED
)
SUM_LATENCY = Fitted(
    25.0, "cycles per product", "until a thread goes on, mostly a load from L1", _ASSUMED
)
SUM_PLACE = Fitted(
    10.0, "instructions per product", "a tap's place, where threads share a sum", _ASSUMED
)
SUM_ADDING = Fitted(200.0, "cycles per sum", "adding up, where threads share a sum", _ASSUMED)
SUM_TESTED = Fitted(
    300.0, "cycles per product", "load from L2, where a test in the loop keeps loads apart", _H200
)
SUM_BLOCK = Fitted(
    1.22, "cycles of the GPU per sum", "start of the block of threads that share a sum", _H200
)
TRANSFORM_LATENCY = Fitted(
    1200.0, "cycles per transform", "first load to last store of an idle GPU", _ASSUMED
)
KEPT = Fitted(0.5, "share of L2", "results that the next kernel still finds there", _ASSUMED)

_GUIDE = Fit("guide", "the CUDA Programming Guide", MEASURE)
BANKS = Fitted(4.0, "issue slots per access", "32 banks that give a warp one value each", _GUIDE)
SECTOR = Fitted(32.0, "bytes", "what a load reads of L2 at least", _GUIDE)
L1_RATE = Fitted(128.0, "bytes per cycle", "a multiprocessor's L1", _GUIDE)
