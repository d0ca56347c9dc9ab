"""Views of memory, compared with numpy's arrays."""

from __future__ import annotations

import numpy as np

from tvmconv.graph.rewrite.memory_view import MemoryView


def elements(view: MemoryView) -> np.ndarray:
    """The place in memory of each element."""
    places = np.array(view.offset)
    for parts in view.axes:
        axis = np.array(0)
        for size, distance in parts:
            axis = axis[..., None] + np.arange(size) * distance
        places = places[..., None] + axis.reshape(-1)
    return places


def test_views_are_of_the_elements_that_numpy_gives():
    array, view = np.arange(2 * 6 * 5 * 4), MemoryView.row_major((2, 6, 20))
    array = array.reshape(2, 6, 20)
    changes = [
        (lambda a: a.reshape(2, 6, 5, 4), lambda v: v.reshaped((2, 6, 5, 4))),
        (lambda a: a.transpose(2, 0, 3, 1), lambda v: v.transposed((2, 0, 3, 1))),
        # two axes of different distances as one, and back
        (lambda a: a.reshape(10, 4, 6), lambda v: v.reshaped((10, 4, 6))),
        (lambda a: a[:, 1:3], lambda v: v.sliced([(0, 10, 1), (1, 2, 1), (0, 6, 1)])),
        (lambda a: a[:, ::-1, 1::2], lambda v: v.sliced([(0, 10, 1), (1, 2, -1), (1, 3, 2)])),
        (lambda a: a.reshape(5, 1, 2, 2, 3), lambda v: v.reshaped((5, 1, 2, 2, 3))),
    ]
    for of_array, of_view in changes:
        array, view = of_array(array), of_view(view)
        np.testing.assert_array_equal(elements(view), array)
    dims = (7, 5, 4, 2, 2, 3)
    np.testing.assert_array_equal(elements(view.broadcast(dims)), np.broadcast_to(array, dims))


def test_axes_that_end_inside_a_part_have_no_view():
    view = MemoryView.row_major((4, 6)).transposed((1, 0))
    assert view.reshaped((2, 3, 4)) and view.reshaped((24,))
    assert view.reshaped((4, 6)) is None and view.reshaped((8, 3)) is None


def test_an_axis_of_several_parts_has_no_slices():
    view = MemoryView.row_major((4, 6)).transposed((1, 0)).reshaped((24,))
    assert view is not None
    assert view.sliced([(1, 4, 1)]) is None
    assert view.sliced([(0, 24, 1)]) == view
