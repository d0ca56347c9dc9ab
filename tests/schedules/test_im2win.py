"""The code that im2win and im2col kernels become, and their lowered forms."""

from __future__ import annotations

import pytest

from tests.assembly import assembly
from tests.kernels import V3, default_config, each_target, reduction_nests
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel

PROBLEMS = ["ic64ih56oc64kh3ph1+bias+relu", "ic256ih14oc256kh3ph1", "ic96ih24oc256kh5"]


@each_target
@pytest.mark.parametrize("name", ["im2win", "im2col"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_accumulators_stay_in_registers(name, problem, machine):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, name)
    code = assembly(kernel)
    body = code.hot_loop()
    config = kernel.config
    columns = config.int("mr") if name == "im2col" else config.int("oh") * config.int("ow")
    assert code.multiply_adds(body) >= columns * config.int("oc")
    assert not code.spills(body)
    assert not code.stores(body)


@each_target
@pytest.mark.parametrize(
    ("problem", "level"),
    [
        ("ic3ih56oc64kh3:nchw", "register"),
        ("ic3ih56oc64kh3:nchw", "parallel"),
        ("ic96ih24oc256kh5:nchw", "parallel"),
        ("ic3ih227oc64kh7sh2:nchw", "parallel"),
    ],
)
def test_the_ladder_ends_in_registers(problem, level, machine):
    workload = Conv2dWorkload.parse(problem)
    config = default_config("im2win_nchw", workload, machine)
    code = assembly(make_kernel(workload, machine, "im2win_nchw", config.replace(level=level)))
    body = code.hot_loop()
    assert code.multiply_adds(body) >= config.int("ow") * config.int("oc")
    # LLVM keeps a pixel too many of a serial function, with the 16 registers of AVX2
    most = 2 if level == "register" and machine is V3 else 0
    assert len(code.spills(body)) <= most
    assert len(code.stores(body)) <= most


def nests(name, machine, **knobs):
    workload = Conv2dWorkload.parse("ic32ih12oc32kh3ph1+bias+relu")
    config = default_config(name, workload, machine, **knobs)
    return reduction_nests(make_kernel(workload, machine, name, config))


@each_target
def test_windows_are_read_in_order(machine):
    """The reduction runs over blocks of channels, window columns, rows, channels."""
    lanes = machine.lanes
    # bands of rows; groups of output blocks where there are two; rows
    rows = "parallel 3, serial 2, serial 4" if lanes == 8 else "parallel 3, serial 4"
    reduction = f"serial {32 // lanes}, serial 3, serial 3, serial {lanes}"
    assert nests("im2win", machine, oc=2, oh=1, ow=5, rows=4) == [
        f"{rows}, serial 2, {reduction}, unrolled 5, unrolled 2, vectorized {lanes}",
        f"{rows}, {reduction}, unrolled 2, unrolled 2, vectorized {lanes}",
    ]


@each_target
def test_im2col_has_one_nest_for_all_panels(machine):
    lanes = machine.lanes
    groups = "serial 2, " if lanes == 8 else ""
    assert nests("im2col", machine, mr=5, oc=2, mc=1) == [
        f"parallel 29, {groups}serial {32 // lanes}, serial 3, serial 3, serial {lanes}, "
        f"unrolled 5, unrolled 2, vectorized {lanes}"
    ]
