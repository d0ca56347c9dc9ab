"""Public functions with arguments of any kind: they work, or say in a sentence what is wrong."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.corpus import networks
from tests.fuzz.runner import Note

_NAMES = ("x", "input", "y", "output", "first", "*")
_SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, -5, 3, 10**9, 2**31, 2**63, 10**400, 0.5, 2.5, -0.0, 1e-300),
    *(float("nan"), float("inf"), 1 + 2j, "", "2", "x", "none", "native", "direct", "-winograd"),
    *("llvm", "llvm -mcpu=nonsense", 'llvm "', "x86-64-v3", "cuda", "\x00", "\ud800", "é" * 300),
    *("/", ".", "/dev/null", "/no/such/folder/file.so", "a.so", "x" * 5000, b"", b"x", b"\x80" * 9),
    *(Path(), Path("a.onnx"), object(), int, Ellipsis, NotImplemented, range(3), len, os),
    *(np.float32(2), np.int64(2), np.str_("x"), np.datetime64("NaT")),
)  # fmt: skip


class Api:
    """Calls with one to three arguments replaced by something else."""

    batch = 100

    def __init__(self) -> None:
        os.environ["TVMCONV_TUNING_LOGS"] = "none"
        self.proto = networks()[4]
        # in a thread of its own: the pool that TVM makes for it goes with it, not into children
        builder = threading.Thread(target=self._build)
        builder.start()
        builder.join()

    def _build(self) -> None:
        import tvmconv

        self.model = tvmconv.build(self.proto, threads=1)
        # linked here, once, for all children
        self.model.run({info.name: np.ones(info.shape, info.dtype) for info in self.model.inputs})

    def make(self, generator: random.Random) -> tuple[str, dict[str, Any]]:
        name = generator.choice(list(self._calls()))
        _, usual, free = self._calls()[name]
        chosen = generator.sample(free, min(len(free), generator.choice((1, 1, 1, 2, 3))))
        return name, {**usual, **{key: _value(generator, 2) for key in chosen}}

    def files(self, case: tuple[str, dict[str, Any]]) -> dict[str, bytes]:
        text = f"{case[0]} {case[1]!r:.5000}\n"
        return {"call.txt": text.encode("utf-8", "backslashreplace")}

    def judge(self, case: tuple[str, dict[str, Any]], note: Note) -> bool:
        name, arguments = case
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            self._calls()[name][0](**arguments)
        return True

    def _calls(self) -> dict[str, tuple[Callable[..., Any], dict[str, Any], list[str]]]:
        """Function, valid arguments, and the names of the arguments that may be replaced."""
        import tvmconv
        from tvmconv.transform import ScheduleOperators, SubstituteConv2d

        model = self.model
        feeds = {info.name: np.ones(info.shape, info.dtype) for info in model.inputs}
        results = [np.empty(info.shape, info.dtype) for info in model.outputs]
        limits = ["algorithms", "error_budget", "memory_budget", "overrides"]
        place = ["target", "threads"]
        build = [*place, *limits, "shapes", "log", "progress"]
        return {
            "build": (tvmconv.build, {"model": self.proto, "threads": 1}, build),
            "build model": (tvmconv.build, {"model": b"", "threads": 1}, ["model"]),
            "load": (tvmconv.load, {"path": "a.so"}, ["path", "threads"]),
            "run": (_positional(model.run), {"x": feeds["x"]}, ["x"]),
            "run two": (_positional(model.run), {"x": feeds["x"], "z": None}, ["x", "z"]),
            "run_into": (
                model.run_into, {"inputs": feeds, "outputs": results}, ["inputs", "outputs"],
            ),
            "bind": (lambda inputs: model.bind(inputs)(), {"inputs": feeds}, ["inputs"]),
            "time": (
                model.time, {"repeat": 1, "warmup": 0}, ["inputs", "repeat", "number", "warmup"],
            ),
            "profile": (model.profile, {"repeat": 1}, ["inputs", "repeat"]),
            "save": (model.save, {"path": "a.so"}, ["path"]),
            "SubstituteConv2d": (SubstituteConv2d, {}, [*place, *limits]),
            "ScheduleOperators": (ScheduleOperators, {}, place),
        }  # fmt: skip


def _positional(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **arguments: function(*arguments.values())


def _value(generator: random.Random, depth: int) -> Any:
    kind = generator.random()
    if kind < 0.65 or not depth:
        return generator.choice(_SCALARS)
    if kind < 0.75:
        shape = generator.choice([(), (0,), (1, 3, 9), (1, 9, 3), (9,), (2, 3, 9), (1,) * 40])
        dtype = generator.choice(["float32", "float64", "int64", "bool", "U3", "O", "complex64"])
        array = np.zeros(shape, dtype)
        array.flags.writeable = generator.random() < 0.8
        return array
    items = [_value(generator, depth - 1) for _ in range(generator.choice((0, 1, 1, 2, 3)))]
    if kind < 0.85:
        return generator.choice((list, tuple))(items)
    if kind < 0.97:
        return {generator.choice((*_NAMES, 1, None)): item for item in items}
    return lambda *_: items
