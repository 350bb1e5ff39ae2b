"""What jobs of a batch system are booked on."""

from __future__ import annotations

import pytest

from master.wiring.batch.pools import Names, project_of

NAMES = Names(
    labels=("pay:cost 1", "pay:x,y", "draft", "pay:"), project="Vision", workspace="Lab 7"
)


@pytest.mark.parametrize(
    ("source", "joined", "project"),
    [
        ("project", ",", "Vision"),
        ("workspace", ",", "Lab_7"),
        ("label:pay:", ",", "cost_1,x_y"),
        ("label:pay:", "_", "cost_1_x_y"),
        ("label", ",", "pay_cost_1,pay_x_y,draft,pay_"),
        ("label:none", ",", ""),
    ],
)
def test_the_project_of_a_job(source: str, joined: str, project: str) -> None:
    assert project_of(NAMES, source, joined) == project


def test_it_is_never_taken_for_an_option() -> None:
    assert project_of(Names((), "--wrap", "w"), "project", ",") == "wrap"
