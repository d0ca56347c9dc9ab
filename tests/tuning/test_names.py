"""TVM's feature extractor tells kinds of work by block names."""

from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own: TVM's features need its tensor intrinsics, of which only the CPU's part
# is registered.
_SCRIPT = """
import json, sys
from tvmconv.tvm_api.meta_schedule import load_cpu_intrinsics
load_cpu_intrinsics()
import tvm
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.feature_extractor import PerStoreFeature
from tests.tuning.examples import V3
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.core.workload import Conv2dWorkload
seen = {}
for text in sys.argv[1:]:
    workload = Conv2dWorkload.parse(text)
    for name in registry.ALGORITHMS:
        if registry.algorithm(name).unsupported(workload, V3):
            continue
        config = registry.offers(name, workload, V3)[0]
        module = tvm.IRModule({"main": make_kernel(workload, V3, name, config).unscheduled()})
        context = ms.TuneContext(mod=module, target=tvm.target.Target(V3.tvm_target()))
        candidate = ms.MeasureCandidate(tvm.s_tir.Schedule(module), [])
        (features,) = PerStoreFeature(extract_workload=True).extract_from(context, [candidate])
        seen[name] = features.numpy()[0, -8:].astype(int).tolist()
print(json.dumps(seen))
"""

# the last eight features in TVM's order, src/s_tir/meta_schedule/feature_extractor
KINDS = (
    *("softmax", "max or min", "add", "batch_matmul", "matmul"),
    *("depthwiseconv2d", "conv2d_winograd", "conv2d"),
)


def test_the_extractor_sees_a_convolution_and_nothing_else():
    problems = (
        "mb1ic32ih8oc32kh3ph1+bias+add+relu",
        "g32mb1ic32ih8oc32kh3ph1+bias+clip(0,6)",
        "mb1ic3ih8oc16kh3ph1:nchw+bias+relu",
    )
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *problems], capture_output=True, check=True, text=True
    )
    seen = json.loads(done.stdout.splitlines()[-1])
    assert {"direct", "direct_first", "depthwise", "im2win", "im2col", "winograd"} <= set(seen)
    for name, marks in seen.items():
        kinds = {kind for kind, mark in zip(KINDS, marks, strict=True) if mark}
        assert kinds <= {"depthwiseconv2d" if name == "depthwise" else "conv2d", "conv2d_winograd"}
        assert len(kinds) == 1, name
