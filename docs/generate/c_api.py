"""The page of the C interface: its header, with the shortest program."""

from __future__ import annotations

from pathlib import Path

from tvmconv.runtime import binding

HEADER = Path(binding.__file__).with_name("c") / "tvmconv.h"
_HEAD = """# C interface

For C and C++ programs that run saved models. `tvmconv.h` is the same for every model.
[Deploy with C or C++](../how-to/deploy-c-cpp.md) uses it step by step.
`tvmconv compile --header` and `tvmconv bundle` write it.
`tvmconv.hpp` is a C++ wrapper with owning types and exceptions.

"""


def page() -> str:
    """Return the page."""
    return f"{_HEAD}```c header\n{HEADER.read_text()}```\n"
