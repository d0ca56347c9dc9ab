"""Every single change of a frozen record, derived from its fields: none can be forgotten."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

from tvmconv.core.datatypes import REQUANTISE
from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.core.errors import WorkloadError


def field_paths(record, prefix=""):
    """Dotted names of all fields, including fields of nested records."""
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from field_paths(value, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def single_changes(record, prefix=""):
    """(field, valid record that differs in this field alone), as many as there are."""
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            nested = single_changes(value, f"{prefix}{field.name}.")
            others = list(nested)
        else:
            others = [(prefix + field.name, other) for other in _others(value)]
        for path, other in others:
            try:
                changed = replace(record, **{field.name: other})
            except WorkloadError:
                continue
            if changed != record:
                yield path, changed


def _others(value):
    """Values of the kind of ``value`` that fields may have."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value, 1]
    if isinstance(value, float):
        return [value + 0.1, 0.0, 1.0, 1 / 3]
    if isinstance(value, str):
        return [
            "NCHW",
            "NHWC",
            "NCHWc",
            *REQUANTISE,
            "float32",
            "float16",
            "int32",
            "int8",
            "uint8",
        ]
    assert isinstance(value, tuple), f"no other values are known for {value!r}"
    steps = (EpilogueOp("bias"), EpilogueOp("relu"), EpilogueOp("clip", (0.0, 6.0)))
    return [(), *((*value, step) for step in steps), *((step,) for step in steps)]
