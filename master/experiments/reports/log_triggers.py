"""Webhooks that are called when a line of output matches: once for a task and a trigger, whatever comes after it.

Lines are searched as for log policies: in threads, in time linear in their length, within a budget of CPU time of each
expression in each task. The call is committed before the lines are: what was not stored comes again, and calls no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from master.core.expconf.models.log_policies import LogPolicy
from master.core.webhooks.matching import Fired, triggers_of
from master.core.webhooks.types import ExperimentFacts, LogFacts, Source, TriggerType
from master.experiments.reports.log_policies import LogPolicySearch
from master.logs.search_turns import Turns
from master.webhooks.registry import WebhookRegistry

OWNER = 0
"""Whose turn it is: searches of webhooks wait for each other, and for nobody else's."""
MAX_LINE = 2_000
"""Characters of a line that are told."""


class LogTriggers:
    def __init__(self, registry: WebhookRegistry) -> None:
        self._registry = registry
        self._searches: dict[tuple[int, ...], LogPolicySearch] = {}
        """By the ids of triggers."""

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
            self._searches.clear()
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
            policies = [
                LogPolicy(name=f"webhook {one.webhook.name}", pattern=one.trigger.regex)
                for one in fired
            ]
            found = self._searches[key] = LogPolicySearch(policies)
        return found
