"""Reads Loop and Scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvmconv.frontend.inline import Walk, error

if TYPE_CHECKING:
    import onnx


def read_loop(walk: Walk, proto: onnx.NodeProto) -> None:
    """Read a Loop."""
    raise error(proto, "this operator is not supported", "cut the model before it")


read_scan = read_loop
