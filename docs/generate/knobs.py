"""The page of the schedule parameters, from the declarations in the schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tvmconv.core.knobs import Knob
from tvmconv.kernels import registry
from tvmconv.kernels.families import schedules_of
from tvmconv.machines.record import Machine

_HEAD = """# Schedule parameters

For everyone who tunes, overrides or benchmarks. The code calls a schedule parameter a knob.
Knobs are choices that a schedule leaves open, such as tile sizes.

```sh
tvmconv explain model.onnx --knobs
```

| use | form |
|---|---|
| search | `tvmconv tune` |
| override of a layer | `{"conv1": {"algorithm": "winograd", "knobs": {"mh": 2}}}` |
| benchmark | `tvmconv bench run --algorithms winograd:mh=2:mw=4` |

A tuning record without a knob means its default in the table. A knob without a default must be
given.
"""


def page(machine: Machine) -> str:
    """Return the declarations of a family as Markdown."""
    parts = [_HEAD]
    for title, names in (
        ("Algorithms", registry.ALGORITHMS),
        ("Fully connected layers", registry.PRODUCTS),
        ("Reproductions", registry.REPRODUCTIONS),
    ):
        parts.append(f"\n## {title}\n")
        for name in names:
            parts += _section(name, registry.knobs(name, machine))
    parts.append("\n## Matrix products\n")
    parts += _section("gemm", schedules_of(machine, "gemm").KNOBS)
    return "".join(parts)


def _section(name: str, knobs: Iterable[Knob[Any]]) -> Iterator[str]:
    yield f"\n### `{name}`\n\n| knob | meaning | default |\n|---|---|---|\n"
    for knob in knobs:
        default = "" if knob.neutral is None else f"`{knob.neutral}`"
        yield f"| `{knob.name}` | {knob.doc} | {default} |\n"
