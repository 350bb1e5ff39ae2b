"""What a list is asked for: a filter and an order as people write them, and what active ones do meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from master.api.experiments.wire import active_state
from master.api.services import ApiContext
from master.api.values import allocation_state
from master.auth.principal import Principal
from master.core.visibility import Visibility
from master.experiments.finding.columns import Table
from master.experiments.finding.filters import Condition, Filter, Group, Node, Operator
from master.experiments.finding.language import mentions, parse
from master.experiments.finding.literals import STATE, Reader
from master.experiments.finding.live_states import LIVE, QUEUED, LiveStates
from master.experiments.finding.queries import Search
from master.experiments.finding.sorts import Sort, parse_written_sorts
from master.experiments.finding.sources import column
from master.experiments.lifecycle.state import Phase

ARCHIVED = "archived"
NEWEST = "-id"


def written(api: ApiContext, text: str, table: Table, by: Principal) -> Node | None:
    """Raises InvalidFilter."""
    username = api.services.auth.user(by.user_id).username
    reader = Reader(username=username, now=api.services.clock.now())
    return parse(text, table, reader)


async def written_search(
    api: ApiContext,
    table: Table,
    by: Principal,
    visible: Visibility,
    *,
    filter: str,
    sort: str,
    project_id: int,
    archived: bool,
) -> Search:
    """What is archived is left out unless the filter is about it. Raises InvalidArgument, NotFound."""
    root = written(api, filter, table, by)
    sorts = parse_written_sorts(sort or NEWEST, table)
    if project_id:
        await api.reads.workspaces.project(project_id, visible)
    shows_archived = archived or mentions(root, ARCHIVED)
    if not shows_archived and not project_id:
        there = Condition(column(table, "parentArchived"), Operator.EQUAL, False)
        root = both(root, there)
    return Search(
        filter=Filter(root, show_archived=shows_archived),
        sorts=sorts,
        project_id=project_id,
        live=live_states(api, table, root, sorts),
    )


def both(one: Node | None, other: Node | None) -> Node | None:
    """None is no condition."""
    kept = tuple(node for node in (one, other) if node is not None)
    return Group(any_of=False, children=kept) if len(kept) > 1 else next(iter(kept), None)


def live_states(
    api: ApiContext, table: Table, root: Node | None, sorts: Sequence[Sort] = ()
) -> LiveStates:
    """Nothing if neither filter nor order is about states."""
    if not mentions(root, STATE.name) and all(sort.source != STATE for sort in sorts):
        return LiveStates()
    ids: dict[str, list[int]] = {state: [] for state in LIVE if state != QUEUED}
    for live in api.services.experiments.all_live():
        if live.state.phase is not Phase.ACTIVE:
            continue
        if table is Table.EXPERIMENTS:
            ids.get(active_state(live), []).append(live.state.id)
            continue
        for trial in live.state.trials.values():
            if trial.phase is Phase.ACTIVE:
                ids.get(allocation_state(trial.open_allocation), []).append(trial.id)
    return LiveStates(ids)
