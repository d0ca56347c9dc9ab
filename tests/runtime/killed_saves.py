"""Save over a model in processes that are killed, one at each call of the operating system.

``python killed_saves.py OLD.so NEW.so FOLDER`` makes the folders ``FOLDER/0``, ``FOLDER/1``, ... in
each of which a child saved the new model over a copy of the old one, and prints their number.
Without an OLD.so, the folder was empty before.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvmconv.model import CompiledModel, load

STEPS = ("open", "close", "write", "fsync", "replace", "unlink", "listdir")


def die_at(step: int) -> None:
    """Kill this process before its call number ``step`` of the operating system."""
    left = [step]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if left[0] == 0:
                if function is write:  # a part of the data arrives
                    write(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return function(*arguments, **options)

        return call

    write = os.write
    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    fcntl.flock = counted(fcntl.flock)


def kill_every_step(old: Path, new: CompiledModel, folder: Path) -> int:
    for step in range(1000):
        place = folder / str(step)
        place.mkdir()
        for suffix in (".so", ".json"):
            if old.with_suffix(suffix).exists():
                shutil.copy(old.with_suffix(suffix), place / f"m{suffix}")
        child = os.fork()
        if child == 0:
            die_at(step)
            new.save(place / "m.so")
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return step + 1
    raise RuntimeError("saving does not end")


if __name__ == "__main__":
    print(kill_every_step(Path(sys.argv[1]), load(sys.argv[2]), Path(sys.argv[3])))
