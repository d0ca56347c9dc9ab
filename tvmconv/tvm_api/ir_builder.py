"""Functions of loop IR written by a program (``tvm.script.ir_builder``)."""

from __future__ import annotations

from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
