"""One call of a baseline for each case, marked for a plugin that counts the executed code.

``counted.py ADAPTER RESULT FOLDER...`` runs under an emulator with that plugin. Section ``i + 2``
is the call of case ``i``, section 1 an empty call. RESULT gets one JSON line::

    {"version": "1.2.3", "interpreter": [[start, end], ...]}

and one for each case, the worker's answer. The code of the interpreter is between its addresses.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

# a descriptor that never exists; closing it begins a section
_MARK = 0x74760000


def _mark(section: int) -> None:
    with contextlib.suppress(OSError):
        os.close(_MARK + section)


def call(run: Callable[[], object], section: int) -> None:
    """One call in a section of its own."""
    _mark(section)
    run()
    _mark(0)


def _interpreter() -> list[list[int]]:
    """Addresses of the program that runs Python code, and of its library if it has one."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5)
        if Path(path).name.startswith(("python3", "libpython3")):
            found.append([int(end, 16) for end in span.split("-")])
    return found


def main() -> None:
    """Count all cases."""
    here = str(Path(__file__).parent)
    workers = importlib.import_module("worker")
    # the script's folder must not shadow real packages with adapter files
    sys.path[:] = [entry for entry in sys.path if entry != here]
    adapter, result, *folders = sys.argv[1:]
    with Path(result).open("w", buffering=1) as file:
        try:
            worker = workers.Worker(workers.load_adapter(adapter), 1)
            head = worker.answer({"do": "hello"})
        except ImportError as error:
            head = {"absent": str(error)}
        file.write(json.dumps({**head, "interpreter": _interpreter()}) + "\n")
        if "version" not in head:
            return
        call(lambda: None, 1)
        for index, folder in enumerate(folders):
            answer = worker.answer({"do": "count", "folder": folder, "section": index + 2})
            file.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
