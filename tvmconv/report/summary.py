"""Facts of a compiled model that several reports show, and the report of ``compile``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmconv.core.decision import PIXEL_CONV
from tvmconv.report.clock import clock_of
from tvmconv.report.document import Report
from tvmconv.report.table import Column, Table, bytes_text, seconds_text
from tvmconv.report.targets import targets_table

if TYPE_CHECKING:
    from tvmconv.artifact.facts import ModelFacts
    from tvmconv.artifact.program_record import MemoryReport


_PROGRAMS = (
    Column("shapes", "shape"),
    Column("convolutions", "convolutions"),
    Column("predicted_seconds", "predicted ms", ".3f", 1e3),
    Column("activations", "activations"),
    Column("own_weights", "own weights"),
)


def compiled_for(model: ModelFacts) -> str:
    """``x86-64-v4 (avx512), 2 threads``."""
    threads = f"{model.threads} thread{'s' if model.threads != 1 else ''}"
    return f"{model.machine.name} ({model.machine.isa}), {threads}"


def memory_text(memory: MemoryReport) -> str:
    """The sizes that matter to a user, in one line."""
    return (
        f"{bytes_text(memory.constant_bytes)} weights, {bytes_text(memory.arena_bytes)} "
        f"activations, {bytes_text(memory.workspace_bytes)} workspace"
    )


def macs_text(model: ModelFacts) -> str:
    """The multiply-accumulate operations of a call: ``1.81 G MACs``."""
    macs = sum(call.flops for call in model.calls) / 2
    size, unit = (1e9, "G") if macs >= 1e9 else (1e6, "M")
    return f"{macs / size:.3g} {unit} MACs"


def model_facts(model: ModelFacts) -> dict[str, Any]:
    """Name, machine, tensors and layout changes; part of every report's facts."""
    return {
        "model": model.name,
        "target": model.machine.name,
        "isa": model.machine.isa,
        "threads": model.threads,
        "inputs": [str(info) for info in model.inputs],
        "outputs": [str(info) for info in model.outputs],
        **({"batch": "any"} if any(info.batched for info in model.inputs) else {}),
        "reorders": model.manifest.reorders,
        "error_budget": model.manifest.policy.get("error_budget"),
        "memory_budget": model.manifest.policy.get("memory_budget"),
        "precision": model.manifest.policy.get("precision", "float32"),
        "finite": model.manifest.policy.get("finite", True),
        "requantize": model.manifest.policy.get("requantise", "float"),
    }


def memory_table(model: ModelFacts) -> Table:
    """Planned bytes: arena, outputs, constants, workspace, padding."""
    meaning = {
        "arena_bytes": "activations of one call, at their peak",
        "output_bytes": "outputs of one call, which the caller keeps",
        "constant_bytes": "packed weights, held once",
        "workspace_bytes": "largest scratch memory of one kernel",
        "padding_bytes": "zeros that fill channel blocks",
        "own_constant_bytes": "weights that no other shape uses",
    }
    rows = [
        {
            "name": name,
            "part": name.removesuffix("_bytes").replace("_", " "),
            "bytes": count,
            "size": bytes_text(count),
            "meaning": meaning.get(name, ""),
        }
        for name, count in asdict(model.memory).items()
        if count or name != "own_constant_bytes"
    ]
    columns = (Column("part", "memory"), Column("size", "size"), Column("meaning", ""))
    return Table("memory", "Memory", columns, rows)


def shapes_text(program: ModelFacts) -> str:
    """``1x3x48x160``: the shape of the only input, or of each by its name; N for any batch."""
    shapes = {info.name: "x".join(map(str, info.sizes)) for info in program.inputs}
    if len(shapes) == 1:
        return next(iter(shapes.values()))
    return ", ".join(f"{name}:{shape}" for name, shape in shapes.items())


def programs_table(model: ModelFacts) -> Table:
    """A row for each program."""
    clock = clock_of(model.machine)
    rows = []
    for program in model.programs:
        memory = program.memory
        cycles = sum(decision.chosen.cycles for decision in program.decisions)
        rows.append(
            {
                "shapes": shapes_text(program),
                "convolutions": convolutions(program),
                "predicted_seconds": clock.seconds(cycles),
                "arena_bytes": memory.arena_bytes,
                "activations": bytes_text(memory.arena_bytes),
                "own_constant_bytes": memory.own_constant_bytes,
                "own_weights": bytes_text(memory.own_constant_bytes),
            }
        )
    return Table("shapes", "Input shapes", _PROGRAMS, rows)


def connected_layers(model: ModelFacts) -> int:
    """Fully connected layers that have a decision, as on CPUs."""
    return sum(decision.workload.is_matrix for decision in model.decisions)


def convolutions(model: ModelFacts) -> int:
    """All convolutions, with or without a decision."""
    return sum(algorithm_counts(model).values()) - connected_layers(model)


def layers_text(model: ModelFacts) -> str:
    """``1 convolution``, ``2 convolutions and 1 fully connected layer``."""
    count, connected = convolutions(model), connected_layers(model)
    parts = [f"{count} convolution{'s' * (count != 1)}"] if count or not connected else []
    parts += [f"{connected} fully connected layer{'s' * (connected != 1)}"] if connected else []
    return " and ".join(parts)


def pixel_layers(model: ModelFacts) -> int:
    """Convolutions by vectors of positions, which have no decision and no prediction."""
    return sum(call.operator == PIXEL_CONV for call in model.calls)


def algorithm_counts(model: ModelFacts) -> dict[str, int]:
    """Number of layers of each algorithm, and of the convolutions that have none."""
    counts = Counter(decision.chosen.algorithm for decision in model.decisions)
    others = {"positions": pixel_layers(model), "plain loops": len(model.unscheduled)}
    return dict(counts.most_common()) | {name: count for name, count in others.items() if count}


def predicted_text(model: ModelFacts) -> str:
    """``28.1 ms for all convolutions``, or for how many of them there is a prediction.

    Fully connected layers are counted and named if the model has any.
    """
    count, total = len(model.decisions), sum(algorithm_counts(model).values())
    if not count:
        return "no convolution has a prediction"
    kinds = ["convolutions"] if convolutions(model) else []
    kinds += ["fully connected layers"] if connected_layers(model) else []
    cycles = sum(decision.chosen.cycles for decision in model.decisions)
    seconds = seconds_text(clock_of(model.machine).seconds(cycles))
    which = "all" if count == total else f"{count} of {total}"
    return f"{seconds} for {which} {' and '.join(kinds)}"


def compile_report(
    model: ModelFacts, output: Path, seconds: float, others: Mapping[str, Path] | None = None
) -> Report:
    """The report of ``compile``: the model, its file, and ``others`` that were written with it."""
    counts, others = algorithm_counts(model), others or {}
    rows = [{"algorithm": name, "layers": count} for name, count in counts.items()]
    columns = (Column("algorithm", "algorithm"), Column("layers", "layers"))
    return Report(
        kind="compile",
        title=f"{model.name} built in {seconds:.1f} s",
        facts={
            **model_facts(model),
            "output": str(output),
            "library_bytes": output.stat().st_size,
            **{name: str(path) for name, path in others.items()},
            "seconds": round(seconds, 3),
        },
        tables=(
            *_several(model),
            Table("algorithms", "Algorithms", columns, rows),
            *([programs_table(model)] if len(model.programs) > 1 else []),
            memory_table(model),
        ),
        notes=_warnings(model),
        brief=_compiled(model, output, seconds, others),
    )


def _several(model: ModelFacts) -> tuple[Table, ...]:
    return (targets_table(model),) if model.manifest.targets else ()


def _warnings(model: ModelFacts) -> tuple[str, ...]:
    return tuple(f"WARNING: no algorithm supports {left}" for left in model.unscheduled)


def _compiled(
    model: ModelFacts, output: Path, seconds: float, others: Mapping[str, Path]
) -> Report:
    """The short view of ``compile`` and ``bundle``."""
    counts = [f"{count} {name}" for name, count in algorithm_counts(model).items()]
    head = {
        "wrote": f"{output}, {bytes_text(output.stat().st_size)}",
        **{name: str(path) for name, path in others.items()},
        "layers": layers_text(model) + (f": {', '.join(counts)}" if counts else ""),
        "predicted": f"{predicted_text(model)}; tvmconv profile measures it",
        "memory": memory_text(model.memory),
    }
    names = [target.name for target in model.manifest.targets]
    built_for = f"{len(names)} targets" if names else compiled_for(model)
    title = f"{model.name} built in {seconds:.1f} s for {built_for}"
    if names:
        head["layers"] += f", for {model.machine.name}"
    warnings = _warnings(model)
    more = (f"WARNING: {len(warnings) - 1} more; -v shows all.",) if len(warnings) > 2 else ()
    return Report(
        "compile",
        title,
        head,
        (*_several(model), *([programs_table(model)] if len(model.programs) > 1 else [])),
        notes=(*warnings[:1], *more) if more else warnings,
    )
