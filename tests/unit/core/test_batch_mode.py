"""Which requests of a pool of mode auto become jobs of their own."""

from __future__ import annotations

from typing import Any

import pytest

from master.core.batch_mode import FEW, SHORT_S, BatchMode, choose

DISPATCH, PILOT = BatchMode.DISPATCH, BatchMode.PILOT


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, (DISPATCH, "few of its kind wait")),
        ({"alike": FEW}, (DISPATCH, "few of its kind wait")),
        ({"alike": FEW + 1}, (PILOT, "5 others of its kind wait")),
        ({"run_time_s": 40.0}, (PILOT, "its kind runs 1 min")),
        ({"run_time_s": SHORT_S}, (PILOT, "its kind runs 10 min")),
        ({"run_time_s": SHORT_S + 1}, (DISPATCH, "few of its kind wait")),
        ({"run_time_s": SHORT_S + 1, "alike": 30}, (PILOT, "30 others of its kind wait")),
        (
            {"run_time_s": 7201.0, "alike": 30},
            (DISPATCH, "it runs longer than a pilot (120 min)"),
        ),
        (
            {"fits_one_node": False, "run_time_s": 40.0, "alike": 30},
            (DISPATCH, "it needs more than one node"),
        ),
        (
            {"run_time_s": 300.0, "lasts_s": 240.0},
            (DISPATCH, "it runs longer than a pilot (5 min)"),
        ),
    ],
)
def test_the_mode_of_a_request(request_: dict[str, Any], expected: tuple[BatchMode, str]) -> None:
    usual = {"fits_one_node": True, "run_time_s": None, "alike": 0, "lasts_s": 7200.0}
    assert choose(**(usual | request_)) == expected
