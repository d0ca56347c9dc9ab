"""Damaged pairs of a shared object and its manifest: noticed before any of the code runs."""

from __future__ import annotations

import random
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.corpus import networks
from tests.fuzz.runner import Note, Wrong
from tvmconv.core.errors import TvmconvError

Pair = tuple[bytes, bytes]


class Artifacts:
    """A saved network; bytes of either file change, one is another network's, or none does."""

    batch = 500

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        self.expected: Any = None
        # in a thread of its own: the pool that TVM makes for it goes with it, not into children
        builder = threading.Thread(target=self._build)
        builder.start()
        builder.join()

    def _build(self) -> None:
        import tvmconv

        with tempfile.TemporaryDirectory() as folder:
            for model in networks()[1:3]:
                built = tvmconv.build(model, "x86-64-v3", threads=1)
                path = built.save(Path(folder) / "model.so")
                self.pairs.append((path.read_bytes(), path.with_suffix(".json").read_bytes()))
                if self.expected is None:
                    self.inputs = {
                        info.name: np.ones(info.shape, info.dtype) for info in built.inputs
                    }
                    self.expected = built.run(self.inputs)

    def make(self, generator: random.Random) -> Pair:
        library, manifest = self.pairs[0]
        kind = generator.random()
        if kind > 0.95:
            # to be accepted: damage seldom leaves what the files mean as it is
            return library, manifest
        if kind < 0.05:
            return generator.choice(
                [(self.pairs[1][0], manifest), (library, self.pairs[1][1]), (b"", manifest)]
            )
        if kind < 0.6:
            return _damage(library, generator), manifest
        if kind < 0.9:
            return library, _damage(manifest, generator)
        return _damage(library, generator), _damage(manifest, generator)

    def files(self, case: Pair) -> dict[str, bytes]:
        return {"model.so": case[0], "model.json": case[1]}

    def judge(self, case: Pair, note: Note) -> bool:
        import tvmconv

        library, manifest = case
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.so"
            path.write_bytes(library)
            path.with_suffix(".json").write_bytes(manifest)
            try:
                model = tvmconv.load(path)
            except TvmconvError:
                if case == self.pairs[0]:
                    raise Wrong("the undamaged pair is refused") from None
                raise
            if library != self.pairs[0][0]:
                raise Wrong("code was mapped that is not what the manifest describes")
            self.use(model, Path(folder))
        return True

    def use(self, model: Any, folder: Path) -> None:
        """Statements left in a changed manifest must be usable, or refused with an error."""
        import tvmconv

        str(model.explain())
        repr(model)
        outputs = model.run(self.inputs)
        for mine, expected in zip(outputs, self.expected, strict=True):
            if not np.array_equal(mine, expected):
                raise Wrong("outputs changed")
        model.run_into(self.inputs, [np.empty_like(value) for value in outputs])
        model.time(repeat=1)
        tvmconv.load(model.save(folder / "again.so"))


def _damage(data: bytes, generator: random.Random) -> bytes:
    damaged = bytearray(data)
    kind = generator.random()
    if kind < 0.15:
        return bytes(damaged[: generator.randrange(len(damaged))])
    if kind < 0.2:
        return bytes(damaged + generator.randbytes(generator.choice((1, 100))))
    for _ in range(generator.choice((1, 1, 1, 2, 8))):
        at = generator.randrange(len(damaged))
        length = generator.choice((1, 1, 1, 4, 64))
        how = generator.random()
        if how < 0.5:
            damaged[at] ^= 1 << generator.randrange(8)
        elif how < 0.8:
            damaged[at : at + length] = generator.randbytes(len(damaged[at : at + length]))
        else:
            damaged[at : at + length] = bytes(len(damaged[at : at + length]))
    return bytes(damaged)
