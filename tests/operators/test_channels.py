from __future__ import annotations

import numpy as np
import pytest

from tests.layout import block, unblock
from tests.operators.harness import HOST, each_machine, normal, run
from tvmconv.operators.channels import concat_channels, pad_blocked, shuffle_channels, slice_blocked


@each_machine
@pytest.mark.parametrize("counts", [(32, 16, 20), (20, 32, 16), (3, 5), (16,), (1, 17, 30)])
def test_concat(counts, machine):
    parts = [normal(1, c, 5, 6, seed=i) for i, c in enumerate(counts)]
    blocked = [block(p, machine.lanes, fill=9.0) for p in parts]
    y = run(lambda *t: concat_channels(t, counts), *blocked, machine=machine)
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), unblock(y, sum(counts)))


@pytest.mark.parametrize("begin,end", [(0, 35), (16, 35), (5, 30), (34, 35)])
def test_slice(begin, end):
    x = normal(2, 35, 12, 30)
    y = run(
        lambda t: slice_blocked(t, (begin, end), (2, 5, 2), (29, 15, -2)),
        block(x, HOST.lanes),
        machine=HOST,
    )
    np.testing.assert_array_equal(
        x[:, begin:end, 2:12:2, 29::-2][:, :, :, :15], unblock(y, end - begin)
    )


@pytest.mark.parametrize("pads", [(1, 2, 3, 0), (0, 0, 0, 1), (-1, 2, 0, -2), (0, 0, 0, 0)])
def test_pad(pads):
    top, left, bottom, right = pads
    x = normal(1, 20, 6, 7)
    y = run(
        lambda t: pad_blocked(t, top, left, bottom, right, 0.5), block(x, HOST.lanes), machine=HOST
    )
    cropped = x[:, :, max(-top, 0) : 6 + min(bottom, 0), max(-left, 0) : 7 + min(right, 0)]
    margins = [(0, 0), (0, 0)] + [(max(a, 0), max(b, 0)) for a, b in ((top, bottom), (left, right))]
    expected = np.pad(cropped, margins, constant_values=0.5)
    np.testing.assert_array_equal(expected, unblock(y, 20))


@pytest.mark.parametrize("channels,groups", [(48, 3), (24, 2), (20, 4), (64, 8)])
def test_shuffle(channels, groups):
    x = normal(1, channels, 5, 5)
    y = run(lambda t: shuffle_channels(t, channels, groups), block(x, HOST.lanes), machine=HOST)
    expected = x.reshape(1, groups, -1, 5, 5).transpose(0, 2, 1, 3, 4).reshape(x.shape)
    np.testing.assert_array_equal(expected, unblock(y, channels))
