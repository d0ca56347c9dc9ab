"""A kernel as text: scheduled, after a pass, as machine code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cuda import SM_80
from tests.kernels import V3
from tvmconv.compile.inspection import kernel_text
from tvmconv.core.errors import InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels.kernel import make_kernel

WORKLOAD = Conv2dWorkload.parse("ic16ih6oc16kh3ph1+bias+relu")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("tir", "sblock"),
        ("after:Specialize", "T.unroll"),
        ("after:tirx.VectorizeLoop", "T.Broadcast(T.float32(0.0), 8)"),
        ("asm", "vfmadd"),
    ],
)
def test_a_kernel_is_shown_at_any_point(form, text):
    assert text in kernel_text(make_kernel(WORKLOAD, V3, "direct"), form)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("tir", "sblock"),
        ("after:VectorizeLoop", "blockIdx.x"),
        ("after:SplitHostDevice", "T.call_ffi_kernel"),
        ("after:cuda.FullWarps", "tirx.kernel_launch_params"),
        ("asm", "__global__"),
    ],
)
def test_a_kernel_for_gpus_is_shown_at_any_point(form, text):
    plain = replace(WORKLOAD, data_layout="NCHW")
    assert text in kernel_text(make_kernel(plain, SM_80, "direct"), form)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("ptx", "unknown --show 'ptx'. Expected tir, asm or after:PASS."),
        ("after:Magic", "--show after:Magic: unknown pass 'Magic'; passes: "),
    ],
)
def test_other_forms_are_refused(form, text):
    with pytest.raises(InputError) as caught:
        kernel_text(make_kernel(WORKLOAD, V3, "direct"), form)
    assert text in str(caught.value)
