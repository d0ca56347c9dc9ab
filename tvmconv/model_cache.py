"""Built models in the user's cache folder: found by everything that a build depends on.

Nothing here imports TVM, whose import takes most of a second.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmconv.artifact.manifest import Manifest, parse_manifest
from tvmconv.cache import entries
from tvmconv.cache.folder import entries_folder
from tvmconv.cache.identity import key_of
from tvmconv.compile.program import CompiledProgram
from tvmconv.compile.stored import manifest_of, packed, unpacked
from tvmconv.core.errors import TvmconvError
from tvmconv.core.files import read_regular
from tvmconv.frontend.identity import identity
from tvmconv.frontend.limits import MAX_FILE_BYTES
from tvmconv.machines import saved
from tvmconv.machines.host import host_cores, host_features, host_model, native_machine
from tvmconv.machines.record import Machine
from tvmconv.records.lookup import search_path


@dataclass(frozen=True)
class CachedModel:
    """The place of one model in the cache."""

    key: str
    cc: str

    @classmethod
    def of(
        cls,
        model: Any,
        target: Any,
        threads: int | None,
        overrides: Any,
        log: Any,
        cc: str,
        **options: Any,
    ) -> CachedModel | None:
        """The place of the model that a build with these arguments makes.

        None if the cache is off, or if the arguments do not determine the model. That is so if a
        function chooses algorithms, and for GPUs. Also for arguments that the build refuses.
        """
        if entries_folder() is None or callable(overrides):
            return None
        try:
            made_of = {
                "target": _target(target, threads),
                "overrides": _overrides(overrides),
                "logs": [(path.name, _digest(path)) for path in search_path(log)],
                "compilers": [cc, os.environ.get("CC"), os.environ.get("CXX")],
                "options": {name: _plain(value) for name, value in options.items()},
            }
            return cls(key_of(["model", made_of], *identity(model)), cc)
        except (TvmconvError, OSError, ValueError, TypeError):
            return None

    def load(self) -> tuple[Manifest, CompiledProgram] | None:
        """The manifest and the code of the model, or None."""
        content = entries.load(entries.MODEL, self.key)
        if content is None:
            return None
        # such as a number that JSON lacks: then the model is built
        with suppress(TvmconvError, KeyError, ValueError, TypeError):
            manifest = parse_manifest(manifest_of(content).encode(), Path(self.key))
            records = manifest.targets or (manifest.record(),)
            machines = [each.machine for each in records if isinstance(each.machine, Machine)]
            return manifest, unpacked(content, machines, self.cc)
        return None

    def store(self, manifest: Manifest, code: CompiledProgram) -> None:
        """Keep a model that was just built."""
        entries.store(entries.MODEL, self.key, packed(code, manifest.to_text()))


def _target(target: Any, threads: int | None) -> Any:
    """Plain data that determine the machine model; raises ``ValueError`` if they do not."""
    if isinstance(target, list | tuple):
        return [_target(each, threads) for each in target]
    cores = host_cores() if threads is None else threads
    if isinstance(target, Machine):
        return [target.to_json(), cores]
    if isinstance(target, dict):
        return [target, cores]
    if not isinstance(target, str) or target.startswith("cuda"):
        raise ValueError(f"models for {target} are not cached")
    if target != "native":
        return [target, cores]
    # LLVM, which names the CPU, reads the same facts
    host = [host_model(), sorted(host_features()), native_machine().to_json()]
    return [target, cores, host, _measured()]


def _measured() -> list[str]:
    """The measured rates of CPUs, of which a native build reads one file."""
    folder = saved.folder()
    files = sorted(folder.glob("*.json")) if folder is not None else []
    return [f"{path.name} {_digest(path)}" for path in files]


def _overrides(overrides: Any) -> Any:
    if overrides is None or isinstance(overrides, Mapping):
        return overrides
    return [os.fspath(overrides), _digest(Path(overrides))]


def _digest(path: Path) -> str:
    with suppress(FileNotFoundError):
        return hashlib.sha256(read_regular(path, MAX_FILE_BYTES)).hexdigest()
    return ""


def _plain(value: Any) -> Any:
    """An argument as JSON; sequences that are not lists become lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [_plain(item) for item in value]
