"""Stretches of tables: of about the size that was asked for, and together all rows."""

import numpy as np

from flatmix.convert.layout import Layout, cut_rows


def test_a_row_group_is_cut_only_where_it_lies_on_this_machine():
    layout = Layout(np.array([0, 10, 30]), np.array([0, 1000, 9000]))
    assert [tuple(one) for one in cut_rows(layout, 1000, whole=True)] == [(0, 10, 1000), (10, 30, 8000)]
    cuts = cut_rows(layout, 2000, whole=False)
    assert [(one.start, one.stop) for one in cuts] == [(0, 10), (10, 15), (15, 20), (20, 25), (25, 30)]
    assert [one.size for one in cuts] == [1000, 2000, 2000, 2000, 2000]


def test_small_row_groups_are_read_together():
    layout = Layout(np.arange(0, 101, 10), np.arange(0, 1001, 100))
    assert [one.stop for one in cut_rows(layout, 600, whole=True)] == [30, 60, 90, 100]
