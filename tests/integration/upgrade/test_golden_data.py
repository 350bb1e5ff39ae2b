"""The data folder of every earlier release goes on with this one: nothing is lost, and no restart stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import SQLModel

from master.allocations.machine import AllocationState
from master.allocations.persistence import allocation_from_document
from master.core.expconf import ExperimentConfig
from master.core.expconf.kinds import CommandConfig
from master.core.searcher.event_json import (
    action_from_json,
    action_to_json,
    event_from_json,
    event_to_json,
)
from master.core.searcher.state_json import state_from_json, state_to_json
from master.experiments.lifecycle.state import GroupMetrics
from master.store import documents
from master.store.documents import DocumentKind, DocumentType
from master.store.repositories.agents import AgentsRepository
from master.store.repositories.fleet import FleetRepository
from provisioner.fleet.instances import instance_document, instance_from_document
from provisioner.fleet.intents import intent_document, intent_from_document
from rm_backends.ports import SlotService
from tests.fakes.actors import ADMIN
from tests.integration.upgrade.golden import RELEASES, data_folder, edit, keeps, restarted, stored
from windlass.base.errors import Unauthenticated, UnreadableDocument
from windlass.base.formats.strict_json import StrictJson

Again = Callable[[Any], Any]
"""A document read into our types and written again."""


def _groups(document: Any) -> Any:
    groups: StrictJson[dict[str, GroupMetrics]] = StrictJson(dict[str, GroupMetrics])
    return groups.dump(groups.load(document, "groups"))


def _intent(document: Any) -> Any:
    intent = intent_from_document({**document, "finished": False})
    assert intent is not None
    return {**intent_document(intent), "finished": document["finished"]}


AGAIN: Mapping[tuple[str, str], Again] = {
    ("allocation", "document"): lambda d: StrictJson[AllocationState](AllocationState).dump(
        allocation_from_document(d)
    ),
    ("trial", "metric_groups"): _groups,
    ("searcherevent", "event"): lambda d: event_to_json(event_from_json(d)),
    ("searcherevent", "actions"): lambda d: [action_to_json(action_from_json(a)) for a in d],
    ("searchersnapshot", "state"): lambda d: state_to_json(state_from_json(d)),
    ("experiment", "config"): lambda d: ExperimentConfig.from_json(d).to_json(),
    ("command", "config"): lambda d: CommandConfig.from_json(d).to_json(),
    ("fleetinstance", "document"): lambda d: instance_document(instance_from_document(d)),
    ("fleetintent", "document"): _intent,
}
NOT_PARSED = {
    ("trial", "summary_metrics"),
    ("metric", "metrics"),
    ("storagebackend", "config"),
    ("experiment", "model_files"),
    ("experiment", "config_origins"),
    ("agent", "slot_service"),
    ("command", "details"),
    ("fleetlesson", "document"),
    ("fleetbake", "document"),
    ("fleetdecision", "document"),
    ("batchlease", "document"),
}
"""Of a later release than the golden data, or read key by key: what reads them has tests of its own."""


def kinds() -> dict[tuple[str, str], DocumentKind]:
    return {
        (table.name, column.name): column.type.kind
        for table in SQLModel.metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, DocumentType)
    }


def test_every_column_of_documents_is_looked_at() -> None:
    assert set(kinds()) == set(AGAIN) | NOT_PARSED


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("where", AGAIN, ids=".".join)
def test_nothing_of_a_stored_document_is_lost(
    release: str, where: tuple[str, str], tmp_path: Path
) -> None:
    """Fails for a field that was renamed or removed without an upcaster."""
    found = stored(data_folder(release, tmp_path / "data"), *where)
    assert found
    for document in map(kinds()[where].read, found):
        again = AGAIN[where](document)
        assert keeps(again, document), f"{again} lacks something of {document}"


@pytest.mark.parametrize("release", RELEASES)
async def test_a_master_goes_on_where_the_old_one_was_killed(release: str, tmp_path: Path) -> None:
    folder = data_folder(release, tmp_path / "data")
    async with restarted(folder) as master:
        services = master.services
        live = {e.state.name: e.state for e in map(services.experiments.live, (3, 4, 5)) if e}
        assert set(live) == {"asha", "single", "paused"}
        assert services.experiments.live(1) is None, "it was over"
        asha = list(live["asha"].trials.values())
        assert [t.metrics.best is not None for t in asha] == [True, True, True]
        assert all(t.open_allocation and t.open_allocation.ready for t in asha)
        assert all(t.latest_checkpoint for t in asha)
        assert len(live["asha"].searcher.trials) == 3
        assert live["paused"].phase == "PAUSED"
        [waiting] = live["single"].trials.values()
        assert waiting.open_allocation is not None
        assert waiting.open_allocation.phase == "PENDING"
        assert waiting.run_id == 2
        commands = {c.state.config.description: c.state for c in services.tasks.roots.job_roots()}
        assert set(commands) == {"long", "queued"}, "the short one was over"
        assert commands["long"].allocation is not None
        assert commands["long"].allocation.phase == "RUNNING"
        assert {u.username for u in services.auth.users()} == {"admin", "determined", "ann"}
        a1, a2 = [a for a in await AgentsRepository(services.store).load() if a.pool == "default"]
        assert a1.slot_service == {1: SlotService.DISABLED}
        assert (a2.enabled, a2.draining) == (False, True)


@pytest.mark.parametrize("release", RELEASES)
async def test_what_was_learned_of_offers_becomes_a_row_for_each(
    release: str, tmp_path: Path
) -> None:
    folder = data_folder(release, tmp_path / "data")
    async with restarted(folder) as master:
        loaded = await FleetRepository(master.services.store).load()
        (lesson,) = loaded.lessons
        assert lesson["boots"]["mean_s"] == pytest.approx(2.57, abs=0.01)
        assert lesson["scope"]["instance_type"] == "embedded-2"
        memory = loaded.memory or {}
        assert set(memory) == {"ledger", "ended_lost"}
        assert memory["ledger"]["peak_instances"] == 2


@pytest.mark.parametrize("release", RELEASES)
async def test_users_without_a_password_get_the_first_one(release: str, tmp_path: Path) -> None:
    """Their sessions end; whoever can read the data folder can log in again."""
    folder = data_folder(release, tmp_path / "data")
    for _ in range(2):
        async with restarted(folder) as master:
            file = folder / "initial-password"
            assert file.stat().st_mode & 0o777 == 0o600
            for name in ("admin", "determined"):
                with pytest.raises(Unauthenticated):
                    await master.services.auth.login(name, "", is_hashed=True, loopback=True)
                password = file.read_text().strip()
                assert await master.services.auth.login(
                    name, password, is_hashed=False, loopback=True
                )


async def test_a_renamed_field_comes_back_under_its_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a release before 0.1.0 had called the pool of an allocation `home`."""
    folder = data_folder("0.1.0", tmp_path / "data")
    edit(folder, "allocation", "document", lambda d: {_renamed(k): v for k, v in d.items()})

    def rename(document: dict[str, Any]) -> dict[str, Any]:
        return {"pool" if key == "home" else key: value for key, value in document.items()}

    monkeypatch.setattr(documents.ALLOCATION, "upcasters", (rename,))
    async with restarted(folder) as master:
        asha = master.services.experiments.live(3)
        assert asha is not None
        allocations = [t.open_allocation for t in asha.state.trials.values()]
        assert [a.pool for a in allocations if a] == ["compute"] * 3
        await master.services.experiments.kill(4, by=ADMIN)
    [ended] = [
        d["$document"]
        for d in stored(folder, "allocation", "document")
        if d.get("$version") == 2 and d["$document"]["task_id"].startswith("4.")
    ]
    assert (ended["pool"], ended["outcome"]["kind"]) == ("default", "withdrawn")


def _renamed(key: str) -> str:
    return "home" if key == "pool" else key


NEWER: Mapping[str, Again] = {
    "version 7": lambda d: {"$version": 7, "$document": d},
    "colour": lambda d: {**d, "colour": "red"},
}


@pytest.mark.parametrize("says", NEWER)
async def test_a_newer_release_s_document_stops_the_start_and_stays(
    says: str, tmp_path: Path
) -> None:
    folder = data_folder("0.1.0", tmp_path / "data")
    edit(folder, "allocation", "document", NEWER[says])
    before = stored(folder, "allocation", "document")
    refused = pytest.RaisesExc(UnreadableDocument, match=says)
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        async with restarted(folder):
            pass
    assert stored(folder, "allocation", "document") == before
