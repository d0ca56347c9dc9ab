"""An operator that refuses the data of a call, see :mod:`tvmconv.frontend.nested.misfits`."""

from __future__ import annotations

from typing import Any

from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.nested.misfits import REFUSE
from tvmconv.operators.indices import refused
from tvmconv.program.collect import CHECK
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.op_pattern import OPAQUE
from tvmconv.tvm_api.types import RelaxExpr


@converts(REFUSE, attrs="text", inputs=0)
def _refuse(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    info = e.graph.types[node.outputs[0]]

    def results() -> Any:
        return refused(info.shape, info.dtype)

    call = e.builder.call_te(
        results,
        primfunc_name_hint="refuse",
        primfunc_attrs={CHECK: str(node.attrs["text"]), "op_pattern": OPAQUE},
    )
    return relax.TupleGetItem(e.emit(call, "check"), 0)
