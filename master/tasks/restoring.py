"""From rows back to live tasks, after a restart of the master."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select

from master.allocations.persistence import newest_allocations
from master.core.jobs import JobType
from master.store import tables
from master.tasks.interactive_queries import InteractiveRow
from master.tasks.live import LiveParts, LiveTask
from master.tasks.persistence import task_from_row
from master.tasks.state import TaskPhase


async def rebuild_tasks(parts: LiveParts, types: Collection[JobType]) -> list[LiveTask]:
    """Every task of these kinds that was not over."""
    command, allocation_table, user = tables.Command, tables.Allocation, tables.User
    not_over = (
        command.state != TaskPhase.TERMINATED.value,
        command.type.in_([type_.value for type_ in types]),
    )
    rows = await parts.store.read(
        select(command, user.username, user.display_name)
        .join(user, user.id == command.owner_id)
        .where(*not_over),
        InteractiveRow,
    )
    allocation_rows = await parts.store.read(
        select(allocation_table)
        .join(command, command.id == allocation_table.task_id)
        .where(*not_over)
    )
    allocations = newest_allocations(allocation_rows)
    return [
        LiveTask(parts, task_from_row(row.task, allocations.get(row.task.id)), row.username)
        for row in rows
    ]
