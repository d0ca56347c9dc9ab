"""Libraries call what they are told to, whichever way they were linked."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from tvmconv.core.linkage import redirect

SOURCE = """
#include <unistd.h>
int asked(void) { return getppid(); }
int other(void) { return getpid(); }
"""


@pytest.mark.parametrize(
    "options",
    [("-z", "lazy"), ("-z", "now", "-z", "relro"), ("-z", "norelro")],
    ids=["bound at the first call", "sealed after loading", "writable"],
)
@pytest.mark.parametrize("called_before", [False, True])
def test_an_imported_function_is_another(
    options: tuple[str, ...], called_before: bool, tmp_path: Path
) -> None:
    path = tmp_path / f"lib{'_'.join(options)}{called_before}.so"
    command = ["cc", "-shared", "-fPIC", "-fplt", "-xc", "-", "-o", str(path)]
    linker = [f"-Wl,{option}" for option in options]
    subprocess.run([*command, *linker], input=SOURCE, text=True, check=True)
    library = ctypes.CDLL(str(path))
    if called_before:
        assert library.asked() == os.getppid()
    process = ctypes.CDLL(None)
    assert redirect(path.name, "getppid", process.getpid)
    assert library.asked() == library.other() == os.getpid() != os.getppid()
    assert process.getppid() == os.getppid()
    assert redirect(path.name, "getppid", process.getppid)
    assert library.asked() == os.getppid()


def test_what_is_not_there_is_left_alone() -> None:
    function = ctypes.CDLL(None).abs
    assert not redirect("libnobody.so", "signal", function)
    assert not redirect("libc.so.6", "no_such_function", function)
