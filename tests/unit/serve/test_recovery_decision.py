"""What a master does with every kind of data folder: a table."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from master.recovery.decision import (
    Content,
    CreateCluster,
    FoundData,
    FoundDatabase,
    LosablePart,
    Refuse,
    StartCluster,
    decide,
)
from master.recovery.identity import FolderState, Identity

STATE = FoundDatabase(where="/d/windlass.db", content=Content.OURS, cluster_id="c-1")
LOGS = FoundDatabase(where="/d/logs.db", content=Content.OURS, cluster_id="c-1")
WHOLE = FoundData(
    folder=Path("/d"),
    identity=Identity(cluster_id="c-1"),
    secret=Content.OURS,
    has_blobs=True,
    state=STATE,
    logs=LOGS,
    way_back="restore the backup of noon",
)
NO_STATE = FoundDatabase(where="/d/windlass.db", content=Content.MISSING)
NO_LOGS = FoundDatabase(where="/d/logs.db", content=Content.MISSING)
NEW = replace(
    WHOLE, identity=None, secret=Content.MISSING, has_blobs=False, state=NO_STATE, logs=NO_LOGS
)
BEGUN = Identity(cluster_id="c-1", state=FolderState.CREATING)


def state(content: Content, **changes: Any) -> FoundDatabase:
    empty = content is not Content.OURS
    return replace(STATE, content=content, cluster_id=None if empty else "c-1", **changes)


def logs(content: Content, **changes: Any) -> FoundDatabase:
    return replace(LOGS, content=content, cluster_id=None, **changes)


GOES: dict[str, tuple[FoundData, StartCluster | CreateCluster]] = {
    "whole": (WHOLE, StartCluster("c-1")),
    "of 0.1, which noted less": (
        replace(WHOLE, identity=None, logs=replace(LOGS, cluster_id=None)),
        StartCluster("c-1"),
    ),
    "nothing": (NEW, CreateCluster()),
    "empty files": (
        replace(NEW, state=state(Content.EMPTY), logs=logs(Content.EMPTY)),
        CreateCluster(),
    ),
    "a first start that was cut at once": (replace(NEW, identity=BEGUN), CreateCluster("c-1")),
    "one that was cut later": (replace(WHOLE, identity=BEGUN), CreateCluster("c-1")),
    "a first start of 0.1 that was cut": (
        replace(WHOLE, identity=None, state=replace(STATE, cluster_id=None)),
        CreateCluster(),
    ),
}


@pytest.mark.parametrize("case", GOES)
def test_what_is_whole_or_new_goes_on(case: str) -> None:
    found, expected = GOES[case]
    assert decide(found) == expected


REFUSED: dict[str, tuple[FoundData, str]] = {
    "no database": (
        replace(WHOLE, state=NO_STATE),
        "/d/windlass.db is missing, but /d has cluster.json, a secret, model definitions, logs (/d/logs.db) of a "
        "cluster: its database was lost, or `db` in master.yaml names another one. Correct it, or restore the backup "
        "of noon. For a new cluster give an empty --data-dir",
    ),
    "an empty database beside a secret only": (
        replace(NEW, secret=Content.OURS, state=state(Content.EMPTY)),
        "/d/windlass.db is empty, but /d has a secret of a cluster",
    ),
    "an empty database beside model definitions only": (
        replace(NEW, has_blobs=True, state=state(Content.EMPTY)),
        "/d/windlass.db is empty, but /d has model definitions of a cluster",
    ),
    "no database beside logs": (
        replace(NEW, logs=LOGS),
        "/d/windlass.db is missing, but /d has logs (/d/logs.db) of a cluster",
    ),
    "a cut database": (
        replace(WHOLE, state=state(Content.DAMAGED, detail="it was cut")),
        "/d/windlass.db is damaged: it was cut; restore the backup of noon",
    ),
    "a database of something else": (
        replace(WHOLE, state=state(Content.FOREIGN, detail="it has the tables songs")),
        "/d/windlass.db is not the database of a master: it has the tables songs",
    ),
    "a newer release": (
        replace(WHOLE, state=state(Content.NEWER, detail="revision 0099 of its tables")),
        "/d/windlass.db was used by a newer Windlass (revision 0099 of its tables): start that release again",
    ),
    "a newer folder": (
        replace(WHOLE, identity=Identity(cluster_id="c-1", format=2)),
        "/d was used by a newer Windlass (format 2 of cluster.json): start that release again",
    ),
    "newer logs": (
        replace(WHOLE, logs=logs(Content.NEWER, detail="revision 0099")),
        "/d/logs.db was used by a newer Windlass (revision 0099)",
    ),
    "another cluster's database": (
        replace(WHOLE, state=replace(STATE, cluster_id="c-2")),
        "/d belongs to cluster c-1, but /d/windlass.db to cluster c-2: correct `db` in master.yaml or --data-dir",
    ),
    "a first start beside another cluster's database": (
        replace(WHOLE, identity=BEGUN, state=replace(STATE, cluster_id="c-2")),
        "/d belongs to cluster c-1, but /d/windlass.db to cluster c-2",
    ),
    "a database without its cluster": (
        replace(WHOLE, state=replace(STATE, cluster_id=None)),
        "/d/windlass.db has tables but no cluster in them; restore the backup of noon",
    ),
    "a cut restore": (
        replace(WHOLE, identity=Identity(cluster_id="c-1", state=FolderState.RESTORING)),
        "a restore into /d did not come to its end: restore again into the same folder",
    ),
    "no secret": (replace(WHOLE, secret=Content.MISSING), "/d/secret is missing: restore"),
    "a damaged secret": (
        replace(WHOLE, secret=Content.DAMAGED),
        "/d/secret is damaged: it does not hold 32 bytes in hexadecimal: restore",
    ),
    "another cluster's secret": (
        replace(WHOLE, secret=Content.FOREIGN),
        "/d/secret is not that of cluster c-1: restore",
    ),
    "no logs": (replace(WHOLE, logs=NO_LOGS), "the log database /d/logs.db is missing: restore"),
    "empty logs": (
        replace(WHOLE, logs=logs(Content.EMPTY)),
        "the log database /d/logs.db is empty: restore",
    ),
    "cut logs": (
        replace(WHOLE, logs=logs(Content.DAMAGED, detail="it was cut")),
        "the log database /d/logs.db is damaged (it was cut): restore",
    ),
    "another cluster's logs": (
        replace(WHOLE, logs=replace(LOGS, cluster_id="c-2")),
        "the log database /d/logs.db is of cluster c-2: restore",
    ),
}
REPLACEABLE = {"secret": LosablePart.SECRET, "logs": LosablePart.LOGS}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_half_there_is_refused_with_what_was_found_and_what_to_do(case: str) -> None:
    found, text = REFUSED[case]
    decision = decide(found)
    assert isinstance(decision, Refuse)
    assert decision.text.startswith(text)


@pytest.mark.parametrize("case", REFUSED)
def test_only_a_lost_secret_and_lost_logs_can_be_replaced(case: str) -> None:
    found, _ = REFUSED[case]
    refused = str(decide(found))
    lost = frozenset(
        one for word, one in REPLACEABLE.items() if f"--replace-lost {word}" in refused
    )
    decision = decide(found, tuple(LosablePart))
    assert decision == StartCluster("c-1", lost) if lost else isinstance(decision, Refuse)


def test_a_new_cluster_is_made_only_where_nothing_of_one_is() -> None:
    """Over all combinations of what can be found."""
    identities = (None, WHOLE.identity, BEGUN)
    databases = [*Content]
    for identity, secret, blobs, of_state, of_logs in product(
        identities, (Content.MISSING, Content.OURS), (False, True), databases, databases
    ):
        found = FoundData(
            folder=Path("/d"),
            identity=identity,
            secret=secret,
            has_blobs=blobs,
            state=state(of_state),
            logs=logs(of_logs),
            way_back="",
        )
        decision = decide(found, tuple(LosablePart))
        if decision == CreateCluster():
            assert identity is None
            assert secret is Content.MISSING
            assert not blobs
            assert of_state in (Content.MISSING, Content.EMPTY)
            assert of_logs in (Content.MISSING, Content.EMPTY)
        if isinstance(decision, StartCluster):
            assert of_state is Content.OURS
