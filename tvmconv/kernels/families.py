"""Finds the schedules of a target: in its family's folder, or in the folder that its kind shares.

A family needs no folder. A file in its folder takes precedence over the shared file of the same
name. This holds for algorithms, operators and the list of rules.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tvmconv.machines.device import Device

_SCHEDULES = "tvmconv.schedules"


def schedules_of(machine: Device, name: str) -> Any:
    """The module ``name`` of schedules: the family's own, else the shared one, else None.

    The target's ``family`` names a folder, which need not exist. Its ``kind`` names the folder that
    all families of the kind share.
    """
    return _module(machine.family, name) or _module(machine.kind, name)


@cache
def _module(family: str, name: str) -> Any:
    folder = f"{_SCHEDULES}.{family}"
    if find_spec(folder) is None or find_spec(f"{folder}.{name}") is None:
        return None
    return import_module(f"{folder}.{name}")
