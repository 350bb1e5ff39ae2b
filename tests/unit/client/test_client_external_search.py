"""`ExternalSearch`: what it sends, and when it returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster

from windlass.base.errors import Conflict
from windlass.sdk.client import Client
from windlass.sdk.external_search import ExternalSearch
from windlass.sdk.session import Session

PATH = "/api/v1/windlass/experiments/7"


@pytest.fixture
def search(master: ScriptedMaster) -> Iterator[ExternalSearch]:
    with Session(master.url, "token") as session:
        yield Client(session).external_search(7)


def test_a_trial_is_added_stopped_and_the_search_closed(
    master: ScriptedMaster, search: ExternalSearch
) -> None:
    master.on("POST", f"{PATH}/trials", {"trial": {"id": 3}})
    master.on("POST", "/api/v1/windlass/trials/3/stop", {})
    master.on("POST", f"{PATH}/searcher/close", {})
    assert search.add("a", {"lr": 1}) == search.add("b", {}, parent_checkpoint="c") == {"id": 3}
    search.stop(3)
    search.close()
    assert [(one.path.rpartition("/")[2], one.body) for one in master.asked] == [
        ("trials", {"key": "a", "hparams": {"lr": 1}}),
        ("trials", {"key": "b", "hparams": {}, "parentCheckpoint": "c"}),
        ("stop", None),
        ("close", None),
    ]


def test_a_refusal_is_an_error_of_its_kind(master: ScriptedMaster, search: ExternalSearch) -> None:
    error = {"error": {"code": 6, "reason": "AlreadyExists", "error": "key: trial 1"}}
    master.on("POST", f"{PATH}/trials", lambda _: (409, error))
    with pytest.raises(Conflict, match="key: trial 1"):
        search.add("a", {})


def test_waiting_ends_when_one_has_ended(master: ScriptedMaster, search: ExternalSearch) -> None:
    states = {1: ["ACTIVE", "ACTIVE"], 2: ["ACTIVE", "ERROR"]}

    def answer(id_: int) -> tuple[int, Any]:
        return 200, {"trial": {"id": id_, "state": f"STATE_{states[id_].pop(0)}"}}

    for one in states:
        master.on("GET", f"/api/v1/trials/{one}", lambda _, one=one: answer(one))
    assert search.wait([1, 2], poll_s=0) == [{"id": 2, "state": "STATE_ERROR"}]
    with pytest.raises(ValueError, match="no trial"):
        search.wait([])
