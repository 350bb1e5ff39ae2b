"""Acting on `log_policies`: the output of trials is searched before it is stored, and what follows is committed first.

So no match is lost: output that was not stored when the master ended is sent again, matches again, and changes nothing
more. Each policy is looked for until it has matched in a run on a node; another run, or another node, counts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from agent_bootstrap.protocol import LogBatch
from master.allocations.task_messages import TaskLogWriter
from master.core.webhooks.types import Source, TaskPlace
from master.experiments.lifecycle import machine
from master.experiments.lifecycle.state import request_id_of
from master.experiments.live import LiveExperiment
from master.experiments.reports.log_policies import Match
from master.experiments.reports.log_triggers import LogTriggers
from master.experiments.webhooks import webhook_facts, webhook_source
from master.logs.search_turns import Turns
from master.webhooks.registry import WebhookRegistry
from rm_backends.ports import LogSink

THREADS = 2
"""Of their own: no log search keeps the output of tasks waiting."""
MAX_SHOWN = 200
"""Characters of a line that matched, in the log."""


class LogWatch:
    """Implements `rm_backends.ports.LogSink` for what agents send; `look` is for what tasks post."""

    def __init__(
        self,
        find: Callable[[int], LiveExperiment | None],
        sink: LogSink,
        task_log: TaskLogWriter,
        *,
        place_of: Callable[[str, str], TaskPlace | None],
        webhooks: WebhookRegistry,
    ) -> None:
        """`find`: the experiment of an id, `place_of`: that of another task by allocation and container, while it is
        not over. `task_log`: where actions are told."""
        self._find = find
        self._place_of = place_of
        self._triggers = LogTriggers(webhooks)
        self._sink = sink
        self._task_log = task_log
        self._turns = Turns(THREADS, "log-policies")

    async def close(self) -> None:
        await self._turns.close()

    async def ingest(self, batch: LogBatch) -> int:
        lines = [entry.log for entry in batch.entries]
        await self.look(lines, allocation_id=batch.allocation_id, container_id=batch.container_id)
        return await self._sink.ingest(batch)

    async def look(self, lines: Sequence[str], *, allocation_id: str, container_id: str) -> None:
        """Return when what these lines mean is committed."""
        parts = allocation_id.split(".")
        live = self._find(int(parts[0])) if len(parts) == 3 and parts[0].isdecimal() else None
        allocation = None if live is None else live.allocation(allocation_id)
        if live is None or allocation is None:
            await self._call_webhooks(lines, allocation_id, container_id)
            return
        mine = (state.container for state in allocation.containers)
        container = next((one for one in mine if one.container_id == container_id), None)
        if container is None:
            return
        policies, node = live.log_policies, container.node
        warn = partial(self._task_log.say, allocation.task_id, allocation_id, level="WARNING")
        await self._triggers.look(
            lines,
            task_id=allocation.task_id,
            node=node,
            source=webhook_source(live.config, live.workspace_id),
            experiment=webhook_facts(live.state, live.trial_of(allocation).id),
            turns=self._turns,
            say=warn,
        )
        for match in await policies.find(
            lines, allocation_id, node, turns=self._turns, owner=live.state.owner_id, say=warn
        ):
            step = partial(
                machine.log_policy_matched,
                request_id=request_id_of(allocation_id),
                policy=match.policy,
                node=node,
            )
            await live.apply(step)
            policies.note(match, allocation_id, node)
            if text := _consequence(match, node):
                warn(text)

    async def _call_webhooks(
        self, lines: Sequence[str], allocation_id: str, container_id: str
    ) -> None:
        """Of a task that is no trial."""
        place = self._place_of(allocation_id, container_id)
        if place is not None:
            await self._triggers.look(
                lines,
                task_id=place.task_id,
                node=place.node,
                source=Source(workspace_id=place.workspace_id),
                experiment=None,
                turns=self._turns,
                say=partial(self._task_log.say, place.task_id, allocation_id, level="WARNING"),
            )


def _consequence(match: Match, node: str) -> str | None:
    _, policy, line = match
    then = {
        "exclude_node": f"will not schedule on {node}",
        "cancel_retries": "will not be run again after a failure",
    }.get(policy.action or "")
    if then is None:
        return None
    shown = line if len(line) <= MAX_SHOWN else f"{line[:MAX_SHOWN]}..."
    return f'(log "{shown}" matched regex {policy.pattern}) therefore {then}'
