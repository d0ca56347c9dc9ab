"""The code that im2win and im2col kernels become, and their lowered forms."""

from __future__ import annotations

import pytest

from tests.kernels import V4, each_target, generated_code, lowered_text
from tvmconv.kernel import make_kernel
from tvmconv.registry import schedule
from tvmconv.workload import Conv2dWorkload

PROBLEMS = ["ic64ih56oc64kh3ph1+bias+relu", "ic256ih14oc256kh3ph1", "ic96ih24oc256kh5"]


@each_target
@pytest.mark.parametrize("name", ["im2win", "im2col"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_accumulators_stay_in_registers(name, problem, machine):
    kernel = make_kernel(Conv2dWorkload.parse(problem), machine, name)
    code = generated_code(kernel)
    body = code.hot_loop()
    config = kernel.config
    columns = config.int("mr") if name == "im2col" else config.int("oh") * config.int("ow")
    assert code.multiply_adds(body) >= columns * config.int("oc")
    assert not code.spills(body)
    assert not code.stores(body)


@pytest.mark.parametrize("level", ["register", "parallel"])
def test_the_ladder_ends_in_registers(level):
    """With AVX2, LLVM unrolls the taps of so few channels and spills; docs/im2win.md says so."""
    machine = V4
    workload = Conv2dWorkload.parse("ic3ih56oc64kh3:nchw")
    config = schedule("im2win_nchw", machine).default_config(workload, machine)
    code = generated_code(
        make_kernel(workload, machine, "im2win_nchw", config.replace(level=level))
    )
    body = code.hot_loop()
    assert code.multiply_adds(body) >= config.int("ow")
    assert not code.stores(body)


@each_target
@pytest.mark.parametrize(
    ("name", "values"),
    [("im2win", {"oc": 2, "oh": 1, "ow": 5, "rows": 4}), ("im2col", {"mr": 5, "oc": 2, "mc": 1})],
)
def test_lowered_form(golden, name, values, machine):
    workload = Conv2dWorkload.parse("ic32ih12oc32kh3ph1+bias+relu")
    config = schedule(name, machine).default_config(workload, machine).replace(**values)
    kernel = make_kernel(workload, machine, name, config)
    golden(f"{name}-{machine.isa}.txt", lowered_text(kernel))
