"""The parts of a model as one shared object."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tvmconv.cache import entries
from tvmconv.cache.identity import key_of
from tvmconv.compile.c_text import literal
from tvmconv.compile.gpu import write_fatbins
from tvmconv.compile.machine_code import Objects
from tvmconv.compile.source import CONSTANTS
from tvmconv.compile.toolchain import Toolchain
from tvmconv.compile.weights import pieces
from tvmconv.core.errors import ArtifactError
from tvmconv.machines.architectures import architecture_of
from tvmconv.program.program import Program
from tvmconv.runtime.library import Library

_PAGE = 4096
# beyond this size, 32-bit addresses might not reach from code to constants
_LARGE = 1 << 30


def link_model(
    program: Program,
    objects: Objects,
    source: str,
    toolchain: Toolchain,
    *,
    weights_sha256: str | None = None,
    triple: str = "",
) -> Library:
    """Link a model's program, kernels, runtime and constants.

    ``source`` is ``model.c``. With ``weights_sha256`` the constants are not linked: see
    :func:`~tvmconv.compile.source.program_source`. Such a library is small and is cached.
    """
    key = ""
    if not objects.gpu and (weights_sha256 is not None or not program.constant_bytes):
        parts = ["link", toolchain.identity, list(objects.code)]
        key = key_of(parts, source.encode(), *objects.code.values())
    with _temporary_folder() as folder:
        output = folder / "model.so"
        if key and (kept := entries.load(entries.LIBRARY, key)) is not None:
            output.write_bytes(kept.data)
            return Library.open(output)
        sources = {"model.c": source}
        if objects.gpu:
            sources["gpu.s"] = write_fatbins(objects.gpu, folder / "gpu")
        if weights_sha256 is None and program.constant_bytes:
            path = folder / "constants.bin"
            write_constants(program, path)
            known = architecture_of(triple) if program.constant_bytes > _LARGE else None
            large = known.large_section if known else ""
            sources["constants.s"] = constants_source(str(path), program.constant_bytes, large)
        runtime = toolchain.runtime_object(on_gpu=objects.gpu is not None)
        toolchain.link(output, sources, write_objects(objects.code, folder / "kernels"), runtime)
        if key:
            entries.store(entries.LIBRARY, key, [output.read_bytes()])
        # the file loses its name with the folder and lives by its descriptor
        return Library.open(output)


def write_objects(code: Mapping[str, bytes], folder: Path) -> list[Path]:
    """The kernels as files."""
    folder.mkdir(exist_ok=True)
    paths = []
    for symbol, content in code.items():
        paths.append(folder / f"{symbol}.o")
        paths[-1].write_bytes(content)
    return paths


def write_constants(program: Program, path: Path) -> None:
    """The constants as a file."""
    with path.open("wb") as file:
        for piece in pieces(program.constants):
            piece.tofile(file)


def constants_source(path: str, size: int, large: str = "") -> str:
    """Assembler that puts a file into a read-only section, which is mapped and never relocated.

    ``large`` names a section for data that 32-bit addresses do not reach.
    """
    section = f'{large},"al",%progbits' if large else '.rodata.tvmconv,"a",%progbits'
    return "\n".join(
        [
            f"\t.section {section}",
            f"\t.balign {_PAGE}",
            f"\t.globl {CONSTANTS}",
            f"\t.hidden {CONSTANTS}",
            f"\t.type {CONSTANTS}, %object",
            f"\t.size {CONSTANTS}, {size}",
            f"{CONSTANTS}:",
            f"\t.incbin {literal(path)}",
            '\t.section .note.GNU-stack,"",%progbits',
            "",
        ]
    )


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as name:
            yield Path(name)
    except OSError as error:
        reason = error.strerror or error
        raise ArtifactError(
            f"cannot link the compiled model in {tempfile.gettempdir()}: {reason}. Free some "
            "space, or name another folder in the variable TMPDIR."
        ) from error
