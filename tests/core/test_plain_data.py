"""Numbers of JSON texts that are read and refused."""

from __future__ import annotations

import json

import pytest

from tvmconv.core import plain_data

_NUMBERS = {
    **dict.fromkeys(("0", "-0.0", "1e308", "-1.7976931348623157e+308", "1e-999"), ""),
    **dict.fromkeys(("9223372036854775807", "-9223372036854775808"), ""),
    **dict.fromkeys(("9223372036854775808", "-9223372036854775809", "9" * 5000), "is too large"),
    **dict.fromkeys(("1e309", "-1E+999", "9" * 400 + ".5"), "is not a finite number"),
    **dict.fromkeys(("NaN", "Infinity", "-Infinity"), "is not a number"),
}


@pytest.mark.parametrize("text", _NUMBERS, ids=lambda text: text[:24])
def test_numbers(text: str) -> None:
    twice = f'{{"a": [{text}, {text}], "text": "1e999"}}'
    if not _NUMBERS[text]:
        assert plain_data.parse(twice) == json.loads(twice)
        return
    with pytest.raises(ValueError, match=_NUMBERS[text]):
        plain_data.parse(twice)
