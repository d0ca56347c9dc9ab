"""Functions of loop IR written as Python (``tvm.script``)."""

from tvm.script import tirx as T
