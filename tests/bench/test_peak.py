"""The probes of peak and bandwidth measure something."""

from __future__ import annotations

import math

from tvmconv.bench.peak import measure_peak
from tvmconv.machines.host import native_machine


def test_measured_peak_is_a_rate():
    peak = measure_peak(native_machine(), threads=1, repeat=3)
    for value in (peak.gflops, peak.median_gflops, peak.read_gbs):
        assert math.isfinite(value)
        assert value > 0
    assert peak.median_gflops <= peak.gflops
    assert set(peak.to_json()) == {"threads", "gflops", "median_gflops", "read_gbs"}
