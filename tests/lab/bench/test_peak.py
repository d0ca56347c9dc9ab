"""The probes of peak and bandwidth measure something."""

from __future__ import annotations

import math
from dataclasses import asdict

from tvmconv.lab.bench.dot_peak import dot_runner
from tvmconv.lab.bench.peak import fma_runner, measure_peak
from tvmconv.machines.host import native_machine


def test_measured_peak_is_a_rate():
    peak = measure_peak(native_machine(), threads=1, repeat=3)
    for value in (peak.gflops, peak.median_gflops, peak.read_gbs):
        assert math.isfinite(value)
        assert value > 0
    assert peak.median_gflops <= peak.gflops
    assert set(asdict(peak)) == {"threads", "gflops", "median_gflops", "read_gbs"}


def test_dot_products_of_bytes_are_faster_than_multiply_adds():
    """Operations count: a vector holds as many dwords as FP32 values."""
    run, operations = dot_runner(native_machine(), 1)
    run()
    assert operations >= 2 * fma_runner(native_machine(), 1)[1]
