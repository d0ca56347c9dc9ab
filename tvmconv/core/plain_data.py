"""JSON: written as its standard has it, read with limits, compared with the records to fill."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import contains
from typing import Any, Union, get_args, get_origin, get_type_hints

_LARGEST = 1 << 63


def parse(text: str) -> Any:
    """The data of a JSON text.

    Raises ``ValueError`` if the text is not JSON, is nested too deep, or contains an invalid
    character. Numbers must be finite and at most 64 bits long.
    """
    # the same few numbers occur thousands of times
    real, integer = cache(finite), cache(_integer)
    try:
        data = json.loads(text, parse_constant=no_number, parse_float=real, parse_int=integer)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if "\\u" in text:  # only an escape can be half a character
        json.dumps(data, ensure_ascii=False).encode()
    return data


def json_text(data: Any, indent: int | None = None) -> str:
    """Plain data as JSON (RFC 8259), which has no numbers that are not finite: they are null."""
    return json.dumps(_finite_or_none(data), indent=indent, ensure_ascii=False, allow_nan=False)


def _finite_or_none(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite_or_none(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite_or_none(value) for value in data]
    return data


def no_number(text: str) -> Any:
    """Refuse NaN and infinity, which Python's parser takes."""
    raise ValueError(f"{text} is not a number")


def finite(text: str) -> float:
    """A number that is not infinite: ``1e999`` is, for Python's parser."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


def _integer(text: str) -> int:
    # the length first: Python refuses thousands of digits with an error of its own
    if len(text) > 20 or not -_LARGEST <= (value := int(text)) < _LARGEST:
        raise ValueError(f"{text[:40]} is too large")
    return value


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def check_types(value: object, hint: Any, where: str) -> None:
    """Compare a value with a type annotation, records and containers with all they hold.

    ``hint`` is a dataclass, a plain type, ``tuple``, ``Mapping`` or a union of such. ``TypeError``
    names the entry and its value. ``where`` is the name of the value in errors.
    """
    # thousands of values that fit, as a manifest has, need no place in a sentence
    if not _fitting(hint)(value):
        _refuse(value, hint, where)


@cache
def _fitting(hint: Any) -> Callable[[Any], bool]:
    """Whether a value fits an annotation, as a function."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: True
    if (kinds := _plain_types(hint)) is not None:
        return lambda value: type(value) in kinds
    if origin in (Union, types.UnionType):
        options = [_fitting(option) for option in arguments]
        return lambda value: any(fits(value) for fits in options)
    plain = [part for part in map(_plain_types, arguments) if part is not None]
    is_plain = len(plain) == len(arguments)
    if origin is tuple and is_plain:
        count = len(plain)
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == count
            and all(map(contains, plain, map(type, value)))
        )
    if origin is tuple and arguments[-1] is Ellipsis:
        item_fits = _fitting(arguments[0])
        return lambda value: isinstance(value, tuple) and all(map(item_fits, value))
    if origin is tuple:
        items = [_fitting(kind) for kind in arguments]
        return lambda value: (
            isinstance(value, tuple)
            and len(value) == len(items)
            and all(fits(item) for fits, item in zip(items, value, strict=True))
        )
    if origin is not None and is_plain:
        keys, values = plain
        return lambda value: (
            isinstance(value, Mapping)
            and keys.issuperset(map(type, value))
            and values.issuperset(map(type, value.values()))
        )
    if origin is not None:
        key_fits, value_fits = map(_fitting, arguments)
        return lambda value: (
            isinstance(value, Mapping)
            and all(map(key_fits, value))
            and all(map(value_fits, value.values()))
        )
    if is_dataclass(hint) and isinstance(hint, type):
        return _record_fitting(hint)
    return lambda value: type(value) is hint


def _plain_types(hint: Any) -> frozenset[type] | None:
    """The types of values that fit a plain type, or a union of these; None for other hints."""
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_plain_types(part) for part in get_args(hint)]
        return None if None in parts else frozenset().union(*filter(None, parts))
    if hint is float:
        return frozenset({int, float})
    return frozenset({hint}) if hint in (int, str, bool, type(None)) else None


def _record_fitting(hint: type) -> Callable[[Any], bool]:
    """The same for the fields of a dataclass; plain ones are compared without a call."""
    kinds = {entry.name: _plain_types(_hints(hint)[entry.name]) for entry in fields(hint)}
    plain = [(name, found) for name, found in kinds.items() if found is not None]
    others = [(name, _fitting(_hints(hint)[name])) for name in kinds if kinds[name] is None]

    def fits(value: Any) -> bool:
        if not isinstance(value, hint):
            return False
        for name, found in plain:
            if type(getattr(value, name)) not in found:
                return False
        return all(part(getattr(value, name)) for name, part in others)

    return fits


def _refuse(value: Any, hint: Any, where: str) -> None:
    """Find the part that does not fit, and say so."""
    origin, arguments = get_origin(hint), get_args(hint)
    parts: list[tuple[Any, Any, str]] = []
    if origin is tuple and isinstance(value, tuple):
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(kinds) == len(value):
            parts = [(item, kinds[i], f"{where}[{i}]") for i, item in enumerate(value)]
    elif origin not in (None, tuple, Union, types.UnionType) and isinstance(value, Mapping):
        for key, item in value.items():
            parts += [(key, arguments[0], where), (item, arguments[1], f"{where}.{key}")]
    elif is_dataclass(hint) and isinstance(hint, type) and isinstance(value, hint):
        for entry in fields(hint):
            kind = _hints(hint)[entry.name]
            parts.append((getattr(value, entry.name), kind, f"{where}.{entry.name}"))
    for part in parts:
        check_types(*part)
    raise TypeError(f"{where} cannot be {str(value)[:80]!r}")
