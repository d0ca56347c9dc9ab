"""A model argument as a compiled model: ``.so`` files are loaded, everything else is built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tvmconv.cli.choices import Choices
from tvmconv.cli.output import progress, warn
from tvmconv.cli.values import parse_shape_lists, parse_shapes, parse_targets
from tvmconv.core.errors import InputError

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts
    from tvmconv.artifact.manifest import Manifest
    from tvmconv.cli.where import Where
    from tvmconv.core.tensor import Array, TensorInfo
    from tvmconv.model import CompiledModel
    from tvmconv.remote import RemoteModel
    from tvmconv.runtime.gpu_options import GpuOptions


def open_model(
    path: Path,
    target: str,
    threads: int | None,
    shapes: list[str] | None,
    choices: Choices | None = None,
    *,
    verify: bool = True,
    here: bool = True,
    gpu: GpuOptions | None = None,
) -> CompiledModel:
    """Load a saved model, or build an ONNX model with progress on the terminal.

    A saved model that is not to run ``here`` may be for another CPU, or for a GPU. If it
    has several targets, ``target`` then names one of them. Raises :class:`InputError` if other
    build options are given for a saved model.
    """
    import tvmconv
    from tvmconv.runtime.gpu_options import GpuOptions

    gpu = gpu or GpuOptions()
    if path.suffix == ".so":
        refuse_choices(path, target if here else "native", shapes, choices)
        if here:
            return tvmconv.load(path, threads=threads, verify=verify, **vars(gpu))
        from tvmconv.artifact.saving import open_artifact
        from tvmconv.model import CompiledModel

        manifest, library = open_artifact(path, verify, here=False)
        manifest = _for_target(manifest, path, target)
        return CompiledModel(manifest.with_threads(threads or manifest.threads), library)
    if not verify:
        raise InputError(f"--no-verify applies only to .so files, got {path}")
    with progress() as callback:
        model: CompiledModel = tvmconv.build(
            path,
            parse_targets(target),
            shapes=parse_shape_lists(shapes),
            threads=threads,
            progress=callback,
            **vars(choices or Choices()),
            **vars(gpu),
        )
    return model


def _for_target(manifest: Manifest, path: Path, target: str) -> Manifest:
    """The manifest for a named target, or else for the target that runs here."""
    from tvmconv.artifact.host_target import described_here

    if target == "native":
        return described_here(manifest)
    names = [each.name for each in manifest.targets] or [manifest.machine.name]
    if target not in names:
        raise InputError(
            f"{path} was not built for --target {target}. Expected one of: {', '.join(names)}. "
            "Name one of these, or compile the model again."
        )
    return manifest.for_target(target) if manifest.targets else manifest


@contextmanager
def called(
    path: Path, where: Where, given: Mapping[str, Array], seed: int
) -> Iterator[tuple[CompiledModel | RemoteModel, dict[str, Array]]]:
    """A model to call, here or on a device, and its inputs: the given and seeded random ones."""
    from tvmconv.measuring.running import make_inputs

    with _opened(path, where) as model:
        yield model, make_inputs(_inputs_of(model, path, where.shapes, given), given, seed)


@contextmanager
def _opened(path: Path, where: Where) -> Iterator[CompiledModel | RemoteModel]:
    """As :func:`open_model`, here or on the device that the options of RPC name."""
    target, threads, verify, gpu = where.target, where.threads, where.verify, where.gpu
    shapes, choices = build_shapes(path, where.shapes), where.choices
    if not where.is_remote:
        yield open_model(path, target, threads, shapes, choices, verify=verify, gpu=gpu)
        return
    from tvmconv.runtime.gpu_options import GpuOptions

    if gpu != GpuOptions():
        raise InputError(
            "--device and --cuda-graph cannot be combined with RPC. To choose the GPU of an RPC "
            "device, start its server with CUDA_VISIBLE_DEVICES."
        )
    from tvmconv.remote import Address, connected

    rpc, tracker, key = where.rpc, where.tracker, where.key
    if bool(tracker) != bool(key) or bool(rpc) == bool(tracker):
        raise InputError(
            "--rpc-tracker requires --rpc-key, and neither can be combined with --rpc. Use --rpc "
            "HOST:PORT, or --rpc-tracker HOST:PORT with --rpc-key KEY."
        )
    address = Address(*rpc_address(rpc or tracker, "--rpc" if rpc else "--rpc-tracker"), key)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        if path.suffix == ".so":
            refuse_choices(path, target, shapes, choices)
            if threads is not None:
                raise InputError(
                    f"--threads cannot be combined with RPC and {path}: a .so runs with the "
                    "threads it was built for. Leave out --threads."
                )
        else:
            model = open_model(path, target, threads, shapes, choices, verify=verify)
            path = model.save(Path(folder) / "model.so")
        with connected(address, path, verify) as remote:
            yield remote


def build_shapes(path: Path, shapes: list[str] | None) -> list[str] | None:
    """The options of shapes, if they are for a build and do not select a program of a .so."""
    return None if path.suffix == ".so" else shapes


def program_of(
    model: ModelFacts,
    path: Path,
    shapes: list[str] | None = None,
    given: Mapping[str, Array] | None = None,
) -> ModelFacts:
    """The program for the shapes of a saved model's options, or of given inputs; else the first.

    Raises :class:`InputError` if a saved model does not have the shapes of the options.
    """
    from tvmconv.measuring.running import given_program
    from tvmconv.report.summary import shapes_text

    if path.suffix != ".so" or not shapes:
        return given_program(model, given or {})
    asked = parse_shapes(shapes) or {}
    names = [info.name for info in model.inputs]
    if unknown := [name for name in asked if name not in names]:
        raise InputError(
            f"--shape or --dim names {', '.join(unknown)}. Expected inputs of {path}: "
            f"{', '.join(names)}. Name one of these."
        )
    program = model.program_with({n: s for n, s in asked.items() if not isinstance(s, int)})
    if program is None:
        known = "; ".join(map(shapes_text, model.programs))
        raise InputError(
            f"{path} was not built for --shape {' '.join(shapes)}. Expected one of: {known}. Name "
            "one of these, or compile the model again."
        )
    return program


def _inputs_of(
    model: ModelFacts, path: Path, shapes: list[str] | None, given: Mapping[str, Array]
) -> list[TensorInfo]:
    """The inputs of :func:`program_of`, for the number of images in the options or the values."""
    from tvmconv.measuring.running import for_images

    program = program_of(model, path, shapes, given)
    asked = {} if build_shapes(path, shapes) else parse_shapes(shapes) or {}
    return for_images(program.inputs, given, asked)


def rpc_address(text: str, option: str) -> tuple[str, int]:
    """Host and port of an option, with a warning if they are not this machine's."""
    from tvmconv.remote import is_loopback, parse_address

    host, port = parse_address(text, option)
    if not is_loopback(host):
        warn(
            f"TVM's RPC to {host} is neither encrypted nor authenticated. Anyone who reaches its "
            "ports can run code. Use it on trusted networks only."
        )
    return host, port


def refuse_choices(
    path: Path, target: str, shapes: list[str] | None, choices: Choices | None
) -> None:
    """Raise :class:`InputError` if options of a build are given for a saved model."""
    if shapes or target != "native":
        remedy = "The variable TVMCONV_TARGET selects a target of a file for several CPUs."
        raise InputError(
            f"--shape and --target require an ONNX model, got {path}"
            + f". {remedy}" * (target != "native")
        )
    if choices is not None and choices.given:
        raise InputError(
            "options that choose algorithms, --tuning-log, --fold-budget, --outputs, --batch and "
            f"--cc require an ONNX model, got {path}"
        )
