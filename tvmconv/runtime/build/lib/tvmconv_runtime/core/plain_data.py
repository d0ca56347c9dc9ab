"""JSON that stands in files: read with limits, and compared with the records it is to fill."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

_LARGEST = 1 << 63


def parse(text: str) -> Any:
    """The data of a JSON text.

    Raises
    ------
    ValueError
        If the text is no JSON, is nested too deep, or holds a number that is not finite or
        beyond 64 bits, or a character that is none.
    """
    try:
        data = json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    json.dumps(data, ensure_ascii=False).encode()
    return data


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


def _integer(text: str) -> int:
    # the length first: Python refuses thousands of digits with an error of its own
    if len(text) > 20 or not -_LARGEST <= (value := int(text)) < _LARGEST:
        raise ValueError(f"{text[:40]} is too large")
    return value


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def check_types(value: Any, hint: Any, where: str) -> None:
    """Compare a value with a type annotation, records and containers with all they hold.

    Parameters
    ----------
    value
        Any value.
    hint
        A dataclass, a plain type, ``tuple``, ``Mapping`` or a union of such.
    where
        How errors call the value.

    Raises
    ------
    TypeError
        Naming the entry and its value.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return
    if origin in (Union, types.UnionType):
        if not any(_fits(value, option, where) for option in arguments):
            raise _wrong(value, where)
    elif origin is tuple:
        if not isinstance(value, tuple):
            raise _wrong(value, where)
        repeated = arguments[-1] is Ellipsis
        kinds = (arguments[0],) * len(value) if repeated else arguments
        if len(kinds) != len(value):
            raise _wrong(value, where)
        for index, (item, kind) in enumerate(zip(value, kinds, strict=True)):
            check_types(item, kind, f"{where}[{index}]")
    elif origin is not None:
        if not isinstance(value, Mapping):
            raise _wrong(value, where)
        for key, item in value.items():
            check_types(key, arguments[0], where)
            check_types(item, arguments[1], f"{where}.{key}")
    elif is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, hint):
            raise _wrong(value, where)
        for entry in fields(hint):
            kind = _hints(hint)[entry.name]
            check_types(getattr(value, entry.name), kind, f"{where}.{entry.name}")
    elif hint is float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(value, where)
    elif type(value) is not hint:
        raise _wrong(value, where)


def _fits(value: Any, hint: Any, where: str) -> bool:
    try:
        check_types(value, hint, where)
    except TypeError:
        return False
    return True


def _wrong(value: Any, where: str) -> TypeError:
    return TypeError(f"{where} cannot be {str(value)[:80]!r}")
