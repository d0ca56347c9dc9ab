"""Changed manifests, with the undamaged code."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from tests.fuzz.artifacts import Artifacts, Pair
from tests.fuzz.json_mutations import mutated_text
from tests.fuzz.runner import Note


class Manifests(Artifacts):
    """The manifest's entries and text, mutated; read, and used with the code it belongs to."""

    def make(self, generator: random.Random) -> Pair:
        library, manifest = self.pairs[0]
        return library, mutated_text(json.loads(manifest), generator)

    def judge(self, case: Pair, note: Note) -> bool:
        from tvmconv.artifact.manifest import read_manifest
        from tvmconv.model import CompiledModel
        from tvmconv.runtime.library import Library

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.so"
            path.write_bytes(case[0])
            path.with_suffix(".json").write_bytes(case[1])
            manifest = read_manifest(path.with_suffix(".json"))
            self.use(CompiledModel(manifest, Library.open(path)), Path(folder))
        return True
