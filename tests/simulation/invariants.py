"""What must hold at every moment of a simulation. Looked at after each commit, and once a second.

The committed state is read over a connection of its own, as a stranger would see it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import OperationalError

from master.store import tables
from master.store.unit_of_work import Execute, UnitOfWork
from provisioner.providers.base import LaunchIntent
from tests.simulation.process import MasterProcess, Watch

if TYPE_CHECKING:
    from tests.simulation.world import World

LOOK_EVERY_S = 1.0
UNEXPLAINED_S = 2.0
"""Between two lines of the master a request may be known to nobody; for longer it may not."""


class Broken(AssertionError):
    """Something happened that never may."""


class Invariants(Watch):
    """Remembers the first violation: `check` raises it, wherever it was found."""

    def __init__(self, world: World) -> None:
        self.commits = 0
        self.allocation_commits = 0
        """Those that change an allocation: each is followed by effects that a kill may cut off."""
        self.kill_before: int | None = None
        """The process dies directly before the commit of that number."""
        self.kill_after: int | None = None
        """The process dies directly after the allocation commit of that number."""
        self.kill_at_launch = False
        self.disk_is_full = False
        self.broken: list[str] = []
        self.reasons: set[str] = set()
        """Everything that was said about waiting requests, as `kind: text`."""
        self._world = world
        self._connection: sqlite3.Connection | None = None
        self._last_metric = 0
        self._newest_allocation: dict[int, int] = {}
        self._unexplained: dict[str, float] = {}

    def check(self) -> None:
        if self.broken:
            raise Broken("\n".join(self.broken[:5]))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # --- the store -------------------------------------------------------------------------------------------------

    def before_commit(self, process: MasterProcess) -> None:
        if self.disk_is_full:
            full = sqlite3.OperationalError("database or disk is full")
            raise OperationalError("COMMIT", {}, full)
        if self.kill_before is not None and self.commits + 1 >= self.kill_before:
            self.kill_before = None
            self._world.note("killed before a commit")
            process.kill()

    def after_commit(self, process: MasterProcess, units: Sequence[UnitOfWork]) -> None:
        if not units:
            return
        self.commits += 1
        for unit in units:
            for operation in unit.operations:
                what = operation.statement if isinstance(operation, Execute) else operation
                line = f"commit {self.commits}: {what}"
                self._world.note(line.replace(str(self._world.folder), "FOLDER"))
        touched = {
            op.table if not isinstance(op, Execute) else None for u in units for op in u.operations
        }
        if tables.Allocation in touched:
            self._look_at_allocations()
            self.allocation_commits += 1
            if self.kill_after is not None and self.allocation_commits >= self.kill_after:
                self.kill_after = None
                self._world.note("killed after a commit")
                process.kill()
        if tables.Metric in touched:
            self._look_at_metrics()

    def query(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """The committed state. Empty while there is no database yet."""
        if self._connection is None:
            path = self._world.database
            self._connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        return self._connection.execute(sql, arguments).fetchall()

    def _look_at_allocations(self) -> None:
        rows = self.query("SELECT id, task_id, document FROM allocation WHERE is_open")
        runs = Counter(task_id for _, task_id, _ in rows)
        for task_id, count in runs.items():
            self._must(count == 1, f"{count} open runs of task {task_id}")
        holders: dict[tuple[str, int], str] = {}
        for id_, _, document in rows:
            for container in json.loads(document)["containers"]:
                if container["phase"] == "TERMINATED":
                    continue
                place = container["container"]
                for slot in place["slot_ids"]:
                    other = holders.setdefault((place["agent_id"], slot), id_)
                    self._must(other == id_, f"slot {slot} of {place['agent_id']}: {other}, {id_}")
        revoked = self.query(
            "SELECT id FROM allocation WHERE NOT is_open AND token_hash IS NOT NULL"
        )
        self._must(not revoked, f"ended runs with a valid token: {revoked}")

    def _look_at_metrics(self) -> None:
        rows = self.query(
            "SELECT m.id, m.trial_id, m.run_id, t.run_id FROM metric m JOIN trial t ON t.id = m.trial_id "
            "WHERE m.id > ?",
            self._last_metric,
        )
        for id_, trial_id, run_id, current in rows:
            self._last_metric = max(self._last_metric, id_)
            self._must(
                run_id == current,
                f"trial {trial_id}: a report of run {run_id} was taken during run {current}",
            )

    def accepted(self, trial_id: int, run_id: int) -> None:
        """The API has carried out something that this run of the trial asked for."""
        newest = self._newest_allocation.setdefault(trial_id, run_id)
        self._must(run_id >= newest, f"trial {trial_id}: run {run_id} was heard after run {newest}")
        self._newest_allocation[trial_id] = max(newest, run_id)

    # --- machines --------------------------------------------------------------------------------------------------

    def before_launch(self, intent: LaunchIntent) -> None:
        known = self.query("SELECT id FROM fleetintent WHERE id = ?", intent.intent_id)
        self._must(bool(known), f"launch of {intent.intent_id}, which is not written down")

    def after_launch(self, process: MasterProcess) -> None:
        """The call is on its way."""
        if self.kill_at_launch:
            self.kill_at_launch = False
            self._world.note("killed at a launch")
            process.kill()

    # --- once a second ---------------------------------------------------------------------------------------------

    async def watch(self, max_instances: int) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            living = len(self._world.living())
            self._must(living <= max_instances, f"{living} instances, at most {max_instances}")
            self._look_at_reasons()

    def _look_at_reasons(self) -> None:
        master = self._world.master
        services = master.services if master is not None else None
        if services is None:
            self._unexplained.clear()
            return
        now = asyncio.get_running_loop().time()
        before, self._unexplained = self._unexplained, {}
        for allocation_id, state in services.allocations.open_states().items():
            if state.has_slots:
                continue
            reason = services.allocations.rm.explain(allocation_id)
            if reason is not None and reason.text:
                self.reasons.add(f"{reason.kind.value}: {reason.text}")
                continue
            since = self._unexplained[allocation_id] = before.get(allocation_id, now)
            self._must(
                now - since < UNEXPLAINED_S, f"{allocation_id} waits, and nobody says for what"
            )

    def _must(self, holds: bool, what: str) -> None:
        if not holds:
            at = asyncio.get_running_loop().time()
            self.broken.append(f"at {at:.3f} s, after {self.commits} commits: {what}")
