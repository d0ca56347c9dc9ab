"""``tvmconv.build``: an ONNX model in, a compiled model out.

The module is not called ``build``: importing a submodule of that name would replace the
function ``tvmconv.build``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from tvmconv.core.arguments import function, shown
from tvmconv.core.errors import ConfigError
from tvmconv.core.interrupts import stoppable, uninterrupted
from tvmconv.core.printed import printable
from tvmconv.core.tensor import ShapeLists
from tvmconv.core.unexpected import carrying, delivered, reported
from tvmconv.machines.several import TargetsLike, resolve_devices
from tvmconv.runtime.gpu_options import GpuOptions

if TYPE_CHECKING:
    import onnx

    from tvmconv.dynamic import DynamicModel
    from tvmconv.model import CompiledModel
    from tvmconv.selection.policy import Overrides

    ModelLike: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto

Progress = Callable[[str, int, int], None]

_NAMED = 3  # constants that a warning names
_CALLER = 3  # stack level of warnings: the caller of build, after its decorator


@overload
def build(
    model: ModelLike,
    target: TargetsLike = ...,
    *,
    shapes: ShapeLists | None = ...,
    outputs: Sequence[str] | None = ...,
    threads: int | None = ...,
    algorithms: Sequence[str] | None = ...,
    error_budget: float | None = ...,
    memory_budget: int | None = ...,
    fold_budget: int | None = ...,
    overrides: Overrides | None = ...,
    finite: bool = ...,
    requantize: str = ...,
    precision: str = ...,
    log: str | os.PathLike[str] | None = ...,
    cc: str = ...,
    device: int = ...,
    cuda_graph: bool | None = ...,
    progress: Progress | None = ...,
    dynamic: Literal[False] = ...,
    max_shapes: None = ...,
    requantise: str | None = ...,
    batch: str | None = ...,
) -> CompiledModel: ...


@overload
def build(
    model: ModelLike, target: TargetsLike = ..., *, dynamic: Literal[True], **options: Any
) -> DynamicModel: ...


# the first signature lists the options of dynamic models, too
@uninterrupted()  # type: ignore[misc]
def build(
    model: ModelLike,
    target: TargetsLike = "native",
    *,
    shapes: ShapeLists | None = None,
    outputs: Sequence[str] | None = None,
    threads: int | None = None,
    algorithms: Sequence[str] | None = None,
    error_budget: float | None = None,
    memory_budget: int | None = None,
    fold_budget: int | None = None,
    overrides: Overrides | None = None,
    finite: bool = True,
    requantize: str = "float",
    precision: str = "float32",
    log: str | os.PathLike[str] | None = None,
    cc: str = "",
    device: int = 0,
    cuda_graph: bool | None = None,
    progress: Progress | None = None,
    dynamic: bool = False,
    max_shapes: int | None = None,
    requantise: str | None = None,
    batch: str | None = None,
) -> CompiledModel | DynamicModel:
    """Compile an ONNX model for one machine, or for several.

    Any number of threads may build at the same time. A lock serializes reading and scheduling;
    kernels are compiled in parallel. Ctrl-C ends a build at the next kernel.

    Parameters
    ----------
    model
        Path of an ONNX file, its bytes, or a ``ModelProto``.
    target
        ``"native"``, another preset (``"x86-64-v3"``, ``"aarch64"``), a GPU
        (``"cuda:sm_90"``), a classic target string
        (``"llvm -mcpu=skylake-avx512"``), a TVM target or a
        :class:`~tvmconv.machines.record.Machine`. A list of CPUs of one architecture makes one
        model for all of them. It runs the code for the first target that the CPU supports, in the
        order of :attr:`CompiledModel.targets`.
    shapes
        Full shapes of inputs that have symbolic dimensions, by input name, or sizes of such
        dimensions by their names: ``{"image": (1, 3, 224, 224)}`` or ``{"height": 224}``. CPU only:
        a list of shapes, or of sizes of a named dimension, makes one model for all of them.
        Position i of each list is one program. A call runs the program for its arrays' shapes.
    outputs
        Names of values at which the model ends, in place of its own outputs. All nodes after them
        are left out. :func:`tvmconv.check` names the values before refused nodes.
    threads
        Threads that the kernels are partitioned for; by default all CPUs of this process.
    algorithms
        Algorithms to choose from; by default all. ``"-winograd"`` excludes one. Fully connected
        layers on CPUs may always use ``dense``.
    error_budget
        Maximum estimated error of a layer, as max|error| / max|reference| against float64 on
        normally distributed input. The default is 5e-6; 3e-5 admits larger Winograd tiles. Where
        no algorithm keeps the budget, as with 0, the layer is computed by ``direct``.
    memory_budget
        Maximum workspace of a call in bytes; 0 allows none. Layers share the workspace, so the
        budget bounds each layer by itself. It does not count packed weights, and does not
        exclude ``dense`` from fully connected layers on CPUs.
    fold_budget
        Maximum bytes of constants that the reader holds while it computes constants of the model.
        The default is 4 times the size of the model with its external data, plus 256 MiB. Weights
        that the model writes as ConstantOfShape add 1 GiB. Time is limited in proportion, and
        tables, such as the indices of a Resize, may take as many bytes again. A model that needs
        more is rejected.
    overrides
        A JSON file, or its content as a mapping, that names the algorithm of single layers:
        ``{"layer1.*": {"algorithm": "direct"}}``. Or a function, called as
        ``function(layer, workload, candidates)`` for every convolution. It returns one of the
        candidates, or None to leave the choice alone. Overrides have priority over
        ``algorithms``, ``error_budget`` and ``finite``, but not over ``memory_budget``.
    finite
        Whether inputs hold finite numbers of ordinary size only. False excludes algorithms
        (Winograd, Strassen) that spread NaN, infinity and overflow over neighboring pixels or
        rows: see ``docs/reference/numerics.md``.
    requantize
        How INT8 layers convert accumulators to 8 bits. ``"float"`` multiplies by a float32 scale
        and rounds to even, as ONNX defines it. ``"fixed"`` uses integers only, a multiplier and a
        shift (:mod:`tvmconv.operators.fixed_point`), and may differ by one near a half. Layers
        without such a form use ``"float"``, and ``explain`` says why.
    precision
        ``"float32"``, or the type that GPUs may round operands of convolutions to for tensor
        cores: ``"tf32"`` or ``"fp16"``. Accumulators stay float32. A layer stays float32 where
        tensor cores do not fit it or make it no faster. ``explain`` and the manifest name each
        layer's precision with its error. The error budget is then 1e-3 by default.
    log
        Tuning log with priority over the user's log and the shipped logs; ``"none"`` builds
        without any log.
    cc
        The C compiler that links the model, with options as in a shell, such as
        ``"clang --target=aarch64-linux-gnu"``. By default the variables ``CC`` and ``CXX`` name
        it, or it is the first installed one. Loading a saved model needs no compiler.
    device, cuda_graph
        CUDA only: as for :func:`tvmconv.load`. The target ``"cuda"`` is that GPU, too.
    progress
        Called as ``progress(stage, done, total)`` while building.
    dynamic
        Whether the model is built for each shape of its inputs when a call first has the shape, on
        this machine. Shapes of ``shapes=`` are built at once and kept. A single size of a named
        dimension fixes the dimension. The model keeps the content of its files in memory. The first
        build of a shape checks the values of all other options.
    max_shapes
        With ``dynamic``: how many other shapes are kept, 16 by default. The shape that was not
        used for the longest time is dropped, and the cache may still have it.
    requantise
        Former name of ``requantize``; deprecated.
    batch
        CPU only: ``"any"`` makes a model that serves any batch size. A call has any number of
        images, along axis 0 of inputs and outputs. The outputs equal the outputs of single images
        bit for bit. A network that combines images is refused. Shapes in ``shapes`` are then for
        one image.

    Returns
    -------
    CompiledModel
        Call its ``run``, or ``save`` it and open it elsewhere with :func:`tvmconv.load`. With
        ``dynamic``, a :class:`tvmconv.DynamicModel`, which has a ``run``, too.

    Raises
    ------
    ModelError
        If the model cannot be read or imported; names the node. Its cause may be an error of TVM.
    TargetError
        If the target is unknown.
    ConfigError
        If the target lacks the precision, or no allowed algorithm computes a layer. Also if an
        override is not understood or matches no layer.
    ArtifactError
        If the target is another architecture or system, and ``cc`` does not compile for it.
        Without ``cc``, the first call or save looks for a compiler.

    Warns
    -----
    UserWarning
        Names the convolutions that no algorithm supports, for example because their weights are
        computed at run time. These run as plain loops. Also names constants that hold NaN.

    Examples
    --------
    >>> import numpy as np, tvmconv
    >>> model = tvmconv.build("resnet18.onnx")  # doctest: +SKIP
    >>> model.run({"input": np.zeros((1, 3, 224, 224), np.float32)})  # doctest: +SKIP
    """
    from tvmconv.artifact.host_target import described_here
    from tvmconv.kernels.compiler_lock import compiler_lock
    from tvmconv.model import CompiledModel
    from tvmconv.model_cache import CachedModel

    options: dict[str, Any] = {
        "target": target,
        "outputs": outputs,
        "threads": threads,
        "algorithms": algorithms,
        "error_budget": error_budget,
        "memory_budget": memory_budget,
        "fold_budget": fold_budget,
        "overrides": overrides,
        "finite": finite,
        "requantize": requantize,
        "precision": precision,
        "log": log,
        "cc": cc,
        "batch": batch,
    }
    if dynamic:
        from tvmconv.dynamic import DynamicModel

        if batch is not None:
            raise ConfigError(
                f"batch={shown(batch)} is given with dynamic=True. Expected one of them. Leave out "
                "batch=: a dynamic model builds each batch size when a call first has it."
            )
        more = {"device": device, "cuda_graph": cuda_graph, "progress": progress}
        each = partial(build, **options, **more, requantise=requantise)
        devices = partial(resolve_devices, target, threads, device)
        return DynamicModel.of(model, shapes, outputs, each, max_shapes, device, devices)
    if max_shapes is not None:
        raise ConfigError(
            f"max_shapes={shown(max_shapes)} is given without dynamic=True. Expected both or none. "
            "Add dynamic=True, or leave max_shapes= out."
        )
    if progress is not None:
        progress = carrying(function(progress, "progress"), "progress")
    report = stoppable(progress)
    gpu = GpuOptions.of(device, cuda_graph)
    cached = None
    if gpu == GpuOptions() and requantise is None:
        cached = CachedModel.of(model, shapes=shapes, **options)
    with delivered():
        report("read the model", 0, 1)
        if cached is not None and (found := cached.load()) is not None:
            report("read the model", 1, 1)
            return CompiledModel(described_here(found[0]), found[1], gpu=gpu)
    with compiler_lock():
        from tvmconv.compile.toolchain import Toolchain
        from tvmconv.frontend import ShapedModel
        from tvmconv.frontend.shape_lists import largest_first
        from tvmconv.programs import Programs, check_count, compile_programs
        from tvmconv.records.lookup import search_path
        from tvmconv.selection.policy import check_precision, make_policy

    if requantise is not None:
        text = "requantise= is deprecated. Use requantize=."
        warnings.warn(text, DeprecationWarning, stacklevel=_CALLER)
        requantize = requantise
    machines = resolve_devices(target, threads, gpu.device)
    gpu.check(machines[0].kind == "cuda")
    if cc:
        Toolchain.find(cc, machines[0].triple)
    if callable(overrides):
        overrides = carrying(overrides, "overrides")
    policy = make_policy(
        algorithms,
        error_budget,
        memory_budget,
        overrides,
        search_path(log),
        finite,
        requantize,
        precision,
    )
    for machine in machines:
        check_precision(policy, machine)
    with delivered(), compiler_lock():
        with reported("reading the model"):
            source = ShapedModel(model, shapes, fold_budget, outputs, batch)
        check_count(len(source.shapes), machines[0], batch)
        programs = Programs.each(machines, policy, report)
        has_warned = False
        # the choices for the largest shape are made first
        for count, index in enumerate(largest_first(source.shapes)):
            report("read the model", count, len(source.shapes))
            with reported("reading the model"):
                loaded = source.read(index)
            nan = loaded.graph.not_numbers()
            if nan and not count:
                warnings.warn(
                    f"{printable(loaded.name)}: NaN in {', '.join(map(repr, nan[:_NAMED]))}"
                    f"{' and others' * (len(nan) > _NAMED)}; outputs that depend on it are NaN "
                    "too. The exported checkpoint may be corrupt.",
                    stacklevel=_CALLER,
                )
            report("read the model", count + 1, len(source.shapes))
            left = [each.add(index, loaded, source.shapes[index]) for each in programs]
            unscheduled = max(left, key=len)
            has_warned = has_warned or bool(nan or unscheduled)
            if unscheduled and not count:
                names = "; ".join(map(str, unscheduled))
                warnings.warn(
                    f"{printable(loaded.name)}: no algorithm supports {len(unscheduled)} "
                    "convolution(s), which run as plain loops, many times slower: "
                    f"{printable(names)}",
                    stacklevel=_CALLER,
                )
    with delivered():
        report("generate code", 0, 1)
        manifest, code = compile_programs(programs, machines, loaded, policy, cc)
        with reported("recording the model"):
            compiled = CompiledModel(described_here(manifest), code, gpu=gpu)
            # a model with warnings is built each time, and warns each time
            if cached is not None and not has_warned:
                cached.store(manifest, code)
        report("generate code", 1, 1)
    return compiled
