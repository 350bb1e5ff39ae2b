"""The `log_policies` of one experiment: which of them new lines of a run match.

They are looked for as log searches are (`master.logs.regex_filter`): in threads of their own, in slices, owner after
owner. Each policy has a budget of CPU time in a run, and is switched off there when that is used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import structlog

from master.core.expconf.models.log_policies import LogPolicy
from master.core.patterns import Pattern
from master.logs.ingest import clean
from master.logs.matching import SLICE_S, Slice, look
from master.logs.search_turns import CpuBudget, Turns

CONFIG_ECHO = '"log_policies":'
"""Lines with this print a configuration, which has every pattern in it."""
POLICY_CPU_S = 5.0
"""Of one policy in one run: millions of lines at once for a common expression."""
POLICY_CPU_PER_S = 0.02
"""Comes back to it."""
MATCHES_NOTHING = r"[^\x00-\x{10FFFF}]"
REMEMBERED = 1_000
"""Runs, until those in which no policy has matched or taken long are forgotten."""
MAX_NAME = 100
"""Characters by which a policy is called in the log of a trial."""

log = structlog.get_logger(__name__)


class Match(NamedTuple):
    number: int
    policy: LogPolicy
    line: str


@dataclass(slots=True)
class _Run:
    """What became of the policies, by their numbers, in the newest run of a trial."""

    allocation_id: str
    matched: set[tuple[str, int]] = field(default_factory=set)
    """On which node."""
    budgets: dict[int, CpuBudget] = field(default_factory=dict)
    switched_off: set[int] = field(default_factory=set)
    left_lines_out: set[int] = field(default_factory=set)

    def is_as_new(self, now: float) -> bool:
        full = all(budget.left(now) >= budget.most_s for budget in self.budgets.values())
        return full and not (self.matched or self.switched_off or self.left_lines_out)


class _Lines:
    """What is searched of the lines that came."""

    def __init__(self, raw: Sequence[str]) -> None:
        self._raw = raw

    @cached_property
    def texts(self) -> Sequence[str]:
        """Made in the first slice, not on the event loop."""
        return [text for text in map(clean, self._raw) if CONFIG_ECHO not in text]


class LogPolicySearch:
    """Patterns are compiled at the first use, in a thread like every search."""

    def __init__(
        self,
        policies: Sequence[LogPolicy],
        *,
        cpu_s: float | None = None,
        budgets: Sequence[CpuBudget] | None = None,
        what: str = "log policy",
    ) -> None:
        """`budgets`: of each policy in all runs together; else each has one of its own in each run. `what` they are."""
        self._policies = [policy for policy in policies if policy.pattern]
        self._cpu_s = POLICY_CPU_S if cpu_s is None else cpu_s
        self._budgets = budgets
        self._what = what
        self._runs: dict[str, _Run] = {}
        """By trial."""
        self._most_runs = REMEMBERED

    async def find(
        self,
        lines: Sequence[str],
        allocation_id: str,
        node: str,
        *,
        turns: Turns,
        owner: int,
        say: Callable[[str], None],
    ) -> Sequence[Match]:
        """Those that are not done there yet. `say`: to the log of the trial. `owner`: whose turn it is."""
        run, searched = self._run(allocation_id), _Lines(lines)
        self._switch_off_spent(run, say)
        done = run.switched_off | {number for where, number in run.matched if where == node}
        left = [(number, 0) for number in range(len(self._policies)) if number not in done]
        found: list[Match] = []
        while left and lines:
            slices = await turns.run(
                owner, partial(self._search, left, searched), partial(self._spend, run, left)
            )
            unfinished = left[len(slices) :]
            for (number, first), one in zip(left, slices, strict=False):
                if one.matched:
                    line = searched.texts[first + one.matched[0]]
                    found.append(Match(number, self._policies[number], line))
                elif self._may_go_on(run, number, one, say) and (
                    (after := first + one.looked_at) < len(searched.texts)
                ):
                    unfinished.append((number, after))
            left = unfinished
        return found

    def note(self, match: Match, allocation_id: str, node: str) -> None:
        """What follows from it is committed."""
        self._run(allocation_id).matched.add((node, match.number))

    def _run(self, allocation_id: str) -> _Run:
        trial = allocation_id.rpartition(".")[0]
        run = self._runs.get(trial)
        if run is None or run.allocation_id != allocation_id:
            if len(self._runs) >= self._most_runs:
                now = asyncio.get_running_loop().time()
                self._runs = {k: one for k, one in self._runs.items() if not one.is_as_new(now)}
                if (
                    self._budgets is not None
                ):  # of all tasks that there ever are: the oldest are over
                    self._runs = dict(list(self._runs.items())[-REMEMBERED // 2 :])
                self._most_runs = max(REMEMBERED, 2 * len(self._runs))
            run = self._runs[trial] = _Run(allocation_id)
        return run

    def _search(self, left: Sequence[tuple[int, int]], lines: _Lines) -> Sequence[Slice]:
        """In a thread: policies, each from a line on, until the slice is used up."""
        slices: list[Slice] = []
        for number, first in left:
            slices.append(look(self._patterns[number], lines.texts[first:]))
            if sum(one.spent_s for one in slices) > SLICE_S:
                break
        return slices

    @cached_property
    def _patterns(self) -> Sequence[Pattern]:
        return [_compiled(policy.pattern or "") for policy in self._policies]

    def _spend(self, run: _Run, left: Sequence[tuple[int, int]], slices: Sequence[Slice]) -> None:
        now = asyncio.get_running_loop().time()
        for (number, _), one in zip(left, slices, strict=False):
            self._budget(run, number, now).spend(one.spent_s, now)

    def _budget(self, run: _Run, number: int, now: float) -> CpuBudget:
        if self._budgets is not None:
            return self._budgets[number]
        new = CpuBudget(self._cpu_s, POLICY_CPU_PER_S, self._cpu_s, now)
        return run.budgets.setdefault(number, new)

    def _switch_off_spent(self, run: _Run, say: Callable[[str], None]) -> None:
        """Of the policies whose budget other runs have used up."""
        now = asyncio.get_running_loop().time()
        for number, budget in enumerate(self._budgets or ()):
            if budget.left(now) <= 0:
                self._switch_off(run, number, say)

    def _may_go_on(self, run: _Run, number: int, one: Slice, say: Callable[[str], None]) -> bool:
        if one.too_large and number not in run.left_lines_out:
            run.left_lines_out.add(number)
            say(
                f"{self._name(number)} is not tried on lines as long as {one.too_large} bytes: its regular expression "
                "is too large for that: write a simpler one, with smaller repetitions"
            )
        now = asyncio.get_running_loop().time()
        if self._budget(run, number, now).left(now) > 0:
            return True
        self._switch_off(run, number, say)
        return False

    def _switch_off(self, run: _Run, number: int, say: Callable[[str], None]) -> None:
        if number not in run.switched_off:
            run.switched_off.add(number)
            most_s = self._cpu_s if self._budgets is None else self._budgets[number].most_s
            say(
                f"{self._name(number)} is switched off for this run: it has used up its {most_s:g} seconds of "
                "CPU time: write a simpler regular expression"
            )

    def _name(self, number: int) -> str:
        policy = self._policies[number]
        name = policy.name or policy.pattern or ""
        return f'{self._what} "{name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."}"'


def _compiled(text: str) -> Pattern:
    try:
        return Pattern(text)
    except ValueError as error:  # of a configuration that was accepted by other rules
        log.warning("a log policy is left out", pattern=text, why=str(error))
        return Pattern(MATCHES_NOTHING)
