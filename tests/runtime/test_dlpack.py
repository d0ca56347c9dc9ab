"""DLPack's capsules, without a GPU."""

from __future__ import annotations

import ctypes
import gc
import weakref

from tvmconv.runtime import dlpack


class Owner:
    """Something whose end can be seen."""


def test_functions_of_python_are_called_with_the_gil():
    assert dlpack._function("PyGILState_Check", ctypes.c_int)() == 1


def test_an_unused_capsule_keeps_its_owner_no_longer_than_itself():
    owner = Owner()
    seen = weakref.ref(owner)
    capsule = dlpack.lend(4096, (2, 3), "float32", 0, owner)
    del owner
    gc.collect()
    assert seen() is not None
    del capsule
    gc.collect()
    assert seen() is None
