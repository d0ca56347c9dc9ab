"""Simplification of index arithmetic (``tvm.sym``)."""

from tvm.sym import Analyzer
