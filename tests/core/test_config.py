"""Knob values: an immutable mapping with JSON round trip and clear errors."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError

knobs = st.dictionaries(
    st.text("abcdefgh_", min_size=1),
    st.integers(-(2**31), 2**31) | st.booleans() | st.text(max_size=8),
    max_size=6,
)


@given(knobs)
def test_json_round_trips(values):
    config = Config.from_json(values)
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config
    assert dict(config) == values


@given(knobs)
def test_order_of_knobs_does_not_matter(values):
    reversed_order = Config.of(**dict(reversed(values.items())))
    assert hash(Config.of(**values)) == hash(reversed_order)
    assert Config.of(**values) == reversed_order


def test_replace_changes_one_knob_and_leaves_the_original():
    config = Config.of(tile_w=14, tile_k=2)
    assert dict(config.replace(tile_w=7)) == {"tile_w": 7, "tile_k": 2}
    assert config.int("tile_w") == 14


def test_unknown_knob_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"unknown knob\(s\) tile_x; .* tile_k, tile_w"):
        Config.of(tile_w=14, tile_k=2).replace(tile_x=1)


@pytest.mark.parametrize("value", [True, "7"])
def test_integer_knob_refuses_other_types(value):
    with pytest.raises(ConfigError, match="tile_w"):
        Config.of(tile_w=value).int("tile_w")


@pytest.mark.parametrize("value", [1.5, None, [1], {}])
def test_json_with_other_values_is_refused(value):
    with pytest.raises(ConfigError, match="must be an integer, string or boolean"):
        Config.from_json({"tile_w": value})


def test_missing_knob_is_a_key_error():
    with pytest.raises(KeyError, match="absent"):
        Config.of(present=1)["absent"]
