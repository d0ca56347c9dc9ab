"""One line of a log: round trips, unknown fields, refused content."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.tuning.examples import DENSE, DEPTHWISE, V3, record
from tvmconv.core.datatypes import DataTypes, Quantisation
from tvmconv.records.fields import RecordError
from tvmconv.records.record import Record, machine_key, outliers


def test_provenance_survives_a_round_trip():
    one = record(knobs={"ow": 7})
    again = Record.from_line(one.to_line())
    assert again == one
    assert again.device["cpu"] == "Some Processor"
    assert again.tuner == {"space": "knobs", "seed": 0, "trials": 64}
    assert again.samples == one.samples
    assert again.default_samples == one.default_samples


def test_every_kind_of_knob_and_epilogue_survives():
    one = record(DEPTHWISE, V3, "depthwise")
    assert Record.from_line(one.to_line()).config == one.config


def test_unknown_fields_survive_at_every_level():
    data = record().to_json()
    data["energy"] = {"joules": 0.25}
    for inner in ("machine", "default", "verification", "device", "versions", "tuner"):
        data[inner]["novel"] = [1, "two"]
    again = Record.from_line(json.dumps(data)).to_json()
    assert again == data


def test_speed_is_compared_by_medians():
    one = record(seconds=1e-4, default_seconds=3e-4)
    assert one.seconds == 1e-4
    assert one.speedup == pytest.approx(3.03)


def test_a_gain_is_the_one_of_interleaved_rounds():
    drifting = replace(record(), default_samples=(1.0, 3.0, 1.0), samples=(0.9, 2.7, 2.9))
    assert drifting.speedup == pytest.approx(1 / 0.9)


def test_outliers_are_counted_and_kept():
    quiet = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99)
    assert outliers(quiet) == 0
    assert outliers((*quiet, 1.5, 3.0)) == 2
    assert outliers((1.0, 9.0)) == 0


def test_preset_name_does_not_part_equal_machines():
    facts = dict(record().machine)
    assert machine_key({**facts, "name": "native"}) == machine_key(facts)
    assert machine_key({**facts, "l2_bytes": 1}) != machine_key(facts)


def test_records_of_other_types_never_compete():
    plain = record()
    typed = replace(
        DENSE, types=DataTypes("uint8", "int8", "int32", "uint8", Quantisation("fixed"))
    )
    other = replace(plain, workload=typed)
    assert other.key != plain.key
    again = Record.from_line(other.to_line())
    assert again == other
    assert again.workload.types == typed.types


def _changed(**fields):
    return json.dumps({**record().to_json(), **fields})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON"),
        ("[1]", "object"),
        ("{" * 30000, "not JSON"),
        ("[" * 60000, "not JSON"),
        ('{"v":' + "9" * 5000 + "}", "not JSON|v="),
        (_changed(v=99), "v=99"),
        (_changed(v=True), "v=True"),
        (_changed(workload="mb1ic64"), "workload"),
        (_changed(workload="mb2000000000ic64ih14oc64kh3ph1"), "larger"),
        (_changed(workload="mb1ic64ih14oc64kh3ph1+clip(0,nan)"), "finite"),
        (_changed(samples=[]), "samples"),
        (_changed(samples=[1e-3] * 1000), "samples"),
        (_changed(samples=[-1.0]), "samples"),
        (_changed(samples=[True]), "samples"),
        (_changed(samples=["1"]), "samples"),
        (_changed(config={"oc": 1 << 40}), "config"),
        (_changed(config={"oc": [1]}), "config"),
        (_changed(config={"oc": 1.5}), "config"),
        (_changed(config={"\x1b[31m": 1}), "unprintable"),
        (_changed(verification={"error": 1e-3, "limit": 1e-5}), "exceeds"),
        (_changed(verification={}), "verification"),
        (_changed(machine={"isa": "avx512"}), "machine"),
        (_changed(default=None), "default"),
        (_changed(device=3), "device"),
        (_changed(tuner={"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": 1}}}}}}}}), "nested"),
        (record().to_line().replace('"samples":[', '"samples":[NaN,', 1), "NaN"),
        (record().to_line().replace('"samples":[', '"samples":[Infinity,', 1), "Infinity"),
        (record().to_line()[:-1] + ',"note":1e999}', "finite"),
        (record().to_line()[:-1] + ',"date":"twice"}', "duplicated"),
        (_changed(note="x" * 70000), "bytes"),
    ],
)
def test_bad_lines_are_refused_with_a_reason(line, message):
    with pytest.raises(RecordError, match=message):
        Record.from_line(line)
