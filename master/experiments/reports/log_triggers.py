"""Webhooks that are called when a line of output matches: once for a task and a trigger, whatever comes after it.

Lines are searched as for log policies: in threads, in time linear in their length, within a budget of CPU time of each
expression, in all tasks together: a webhook of the cluster hears thousands, and their output waits for the search. The
call is committed before the lines are: what was not stored comes again, and calls no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from master.core.expconf.models.log_policies import LogPolicy
from master.core.webhooks.matching import Fired, triggers_of
from master.core.webhooks.types import ExperimentFacts, LogFacts, Source, TriggerType
from master.experiments.reports.log_policies import LogPolicySearch
from master.logs.search_turns import CpuBudget, Turns
from master.webhooks.registry import WebhookRegistry

OWNER = 0
"""Whose turn it is: searches of webhooks wait for each other, and for nobody else's."""
TRIGGER_CPU_S = 20.0
"""Of one expression, before it is switched off in the tasks that write then."""
TRIGGER_CPU_PER_S = 0.05
"""Comes back to it."""
MAX_LINE = 2_000
"""Characters of a line that are told."""


class LogTriggers:
    def __init__(self, registry: WebhookRegistry) -> None:
        self._registry = registry
        self._searches: dict[tuple[int, ...], LogPolicySearch] = {}
        """By the ids of triggers."""
        self._budgets: dict[int, CpuBudget] = {}
        """By the id of a trigger."""

    async def look(
        self,
        lines: Sequence[str],
        *,
        task_id: str,
        node: str,
        source: Source,
        experiment: ExperimentFacts | None,
        turns: Turns,
        say: Callable[[str], None],
    ) -> None:
        """Return when the calls that these lines bring about are committed. `say`: to the log of the task."""
        fired = list(triggers_of(self._registry.all(), source, TriggerType.TASK_LOG))
        if not fired:
            return
        search = self._search(fired)
        run = f"{task_id}."
        for match in await search.find(lines, run, "", turns=turns, owner=OWNER, say=say):
            told = LogFacts(task_id=task_id, node=node, line=match.line[:MAX_LINE])
            await self._registry.matched(fired[match.number], told, experiment)
            search.note(match, run, "")

    def _search(self, fired: Sequence[Fired]) -> LogPolicySearch:
        key = tuple(one.trigger.id for one in fired)
        if (found := self._searches.get(key)) is None:
            self._forget_deleted()
            policies = [
                LogPolicy(name=one.webhook.name, pattern=one.trigger.regex) for one in fired
            ]
            budgets = [self._budget(one.trigger.id) for one in fired]
            found = LogPolicySearch(policies, budgets=budgets, what="webhook")
            self._searches[key] = found
        return found

    def _budget(self, trigger_id: int) -> CpuBudget:
        now = asyncio.get_running_loop().time()
        new = CpuBudget(TRIGGER_CPU_S, TRIGGER_CPU_PER_S, TRIGGER_CPU_S, now)
        return self._budgets.setdefault(trigger_id, new)

    def _forget_deleted(self) -> None:
        there = {one.id for webhook in self._registry.all() for one in webhook.triggers}
        self._searches = {k: one for k, one in self._searches.items() if there.issuperset(k)}
        self._budgets = {k: one for k, one in self._budgets.items() if k in there}
