"""docs/scheduling.md: its examples are run, its settings are the code's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from master.config import load
from master.core.scheduler import decide
from master.core.scheduler.fitting import REAL, shape_of
from master.core.scheduler.forecast import expected_start
from master.core.scheduler.reservations import reserve_for_starving
from master.core.scheduler.types import (
    AgentState,
    Decision,
    FittingPolicy,
    Job,
    Launchable,
    PoolState,
    Request,
    Running,
    SchedulerSettings,
    SchedulerType,
)
from master.core.scheduler.usage import used_slots

PAGE = (Path(__file__).parents[4] / "docs" / "scheduling.md").read_text()
NUMBER = r"(\d+)"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


class Story:
    """A pool to which things happen. Decisions are made, and applied, when the story asks what came of it."""

    def __init__(self) -> None:
        self.pool = PoolState(now=1_000.0, settings=SchedulerSettings())
        self.decision: Decision | None = None
        self.backfilled: set[str] = set()
        self.lines: list[tuple[str, Callable[..., None]]] = [
            (r"pool: (.+); agents ([\d ]+)", self.open),
            (rf"(\w+) submits {NUMBER} x {NUMBER} slots?(.*)", self.submit),
            (rf"{NUMBER} min later", self.wait),
            (r"what was asked to leave has left", self.leave),
            (r"(\w+) ends", self.drop),
            (rf"(\w+) drops to {NUMBER}", self.drop),
            (r"(\S+) saves a checkpoint", self.save),
            (r"=> nothing is reserved", self.check_no_reservation),
            (rf"=> (\w+) has reserved (.+), free in {NUMBER} min", self.check_reservation),
            (rf"=> (\S+) starts in {NUMBER} min", self.check_start),
            (r"=> (\S+) starts nobody knows when", self.check_start),
            (r"=> (\w+) waits: (.+)", self.check_reason),
            (r"=> (\w+) runs on (.+)", self.check_place),
            (r"=> (\w+)\.(\d+) leaves", self.check_victim),
            (r"=> ((?:\w+: [^;]+)(?:; \w+: [^;]+)*)", self.check_counts),
        ]

    def tell(self, line: str) -> None:
        for pattern, action in self.lines:
            found = re.fullmatch(pattern, line)
            if found:
                if line.startswith("=>"):
                    self._decide()
                else:
                    self.decision = None
                action(*found.groups())
                return
        raise AssertionError(f"not understood: {line}")

    def open(self, how: str, sizes: str) -> None:
        settings, places = SchedulerSettings(), 100
        for part in re.split(r", | with ", how):
            launch = re.fullmatch(rf"can launch {NUMBER} x {NUMBER} slots in {NUMBER} min", part)
            if launch:
                count, slots, minutes = (int(n) for n in launch.groups())
                offer = Launchable(slots_per_agent=slots, count=count, ready_in_s=minutes * 60)
                self.pool = replace(self.pool, launchable=(offer,))
            elif part == "preemption":
                settings = settings.model_copy(update={"preemption": True})
            elif part == "mixed sizes":
                settings = settings.model_copy(update={"allow_heterogeneous_fits": True})
            elif part == "1 zero-slot place":
                places = 1
            elif part in get_args(FittingPolicy):
                settings = settings.model_copy(update={"fitting_policy": part})
            else:
                settings = settings.model_copy(update={"type": part})
        self.pool = replace(
            self.pool,
            settings=settings,
            agents=tuple(
                AgentState(id=f"n{i}", slots=int(size), aux_places=places)
                for i, size in enumerate(sizes.split())
            ),
        )

    def submit(self, job: str, count: str, slots: str, more: str) -> None:
        options = {"weight": "1", **dict(re.findall(r"(weight|priority|max_slots) (\d+)", more))}
        runs = re.search(rf"runs {NUMBER} min", more)
        known = re.sub(
            rf", (not preemptible|runs {NUMBER} min|(weight|priority|max_slots) \d+)", "", more
        )
        assert known == "", f"not understood: {known}"
        order = Job(
            id=job,
            submitted=float(len(self.pool.jobs)),
            weight=float(options["weight"]),
            priority=int(options["priority"]) if "priority" in options else None,
            max_slots=int(options["max_slots"]) if "max_slots" in options else None,
        )
        requests = tuple(
            Request(
                id=f"{job}.{i}",
                job_id=job,
                slots=int(slots),
                requested=self.pool.now,
                preemptible="not preemptible" not in more,
                expected_run_s=float(runs[1]) * 60 if runs else None,
            )
            for i in range(int(count))
        )
        self.pool = replace(
            self.pool,
            jobs={**self.pool.jobs, job: order},
            waiting=(*self.pool.waiting, *requests),
        )

    def wait(self, minutes: str) -> None:
        now = self.pool.now + 60 * int(minutes)
        self.pool = replace(
            self.pool,
            now=now,
            running=tuple(
                one
                for one in self.pool.running
                if one.expected_end is None or one.expected_end > now
            ),
        )

    def leave(self) -> None:
        gone = tuple(one.request for one in self.pool.running if one.releasing)
        assert gone, "nothing was asked to leave"
        self.pool = replace(
            self.pool,
            running=tuple(one for one in self.pool.running if not one.releasing),
            waiting=(*self.pool.waiting, *gone),
        )

    def drop(self, job: str, left: str = "0") -> None:
        """Its tasks end until so many are left, those that wait first."""
        ids = [one.request.id for one in self.pool.running if one.request.job_id == job]
        ids += [request.id for request in self.pool.waiting if request.job_id == job]
        assert len(ids) > int(left)
        gone = set(ids[int(left) :])
        self.pool = replace(
            self.pool,
            running=tuple(one for one in self.pool.running if one.request.id not in gone),
            waiting=tuple(request for request in self.pool.waiting if request.id not in gone),
        )

    def save(self, task: str) -> None:
        assert any(one.request.id == task for one in self.pool.running)
        self.pool = replace(
            self.pool,
            running=tuple(
                replace(one, last_checkpoint=self.pool.now) if one.request.id == task else one
                for one in self.pool.running
            ),
        )

    def check_counts(self, text: str) -> None:
        """All jobs that there are must be named."""
        found: dict[str, Counter[str]] = {}
        for one in self.pool.running:
            request = one.request
            word = "leave" if one.releasing else "run"
            if word == "run" and request.id in self.backfilled:
                word = "backfilled"
            found.setdefault(request.job_id, Counter())[word] += 1
        for request in self.pool.waiting:
            found.setdefault(request.job_id, Counter())["wait"] += 1
        said = {
            job: Counter({word.removesuffix("s"): int(count) for count, word in counts})
            for job, counts in (
                (job, re.findall(r"(\d+) (\w+)", part))
                for job, part in re.findall(r"(\w+): ([^;]+)", text)
            )
        }
        assert said == found

    def check_reason(self, job: str, text: str) -> None:
        assert self.decision is not None
        first = next(r.id for r in self.pool.waiting if r.job_id == job)
        assert self.decision.waiting[first].reason.text == text

    def check_place(self, job: str, text: str) -> None:
        placements = [dict(o.placement) for o in self.pool.running if o.request.job_id == job]
        assert placements == [_placement(text)]

    def check_victim(self, job: str, number: str) -> None:
        leaving = [one.request.id for one in self.pool.running if one.releasing]
        assert leaving == [f"{job}.{number}"]

    def check_start(self, task: str, minutes: str | None = None) -> None:
        at = expected_start(self.pool, task)
        assert (None if at is None else round((at - self.pool.now) / 60)) == (
            None if minutes is None else int(minutes)
        )

    def check_no_reservation(self) -> None:
        assert self._reservations() == {}

    def check_reservation(self, job: str, place: str, minutes: str) -> None:
        assert self._reservations() == {
            f"{job}.0": (_placement(place), self.pool.now + 60 * int(minutes))
        }

    def _reservations(self) -> dict[str, tuple[dict[str, int], float | None]]:
        used = used_slots(self.pool.running)
        free = [(a.id, a.slots, a.slots - used.get(a.id, 0), REAL) for a in self.pool.agents]
        found = reserve_for_starving(
            self.pool, free, [(request, shape_of(request)) for request in self.pool.waiting]
        )
        if found is None:
            return {}
        return {name: (dict(r.placement), r.at) for name, r in found.by_request.items()}

    def _decide(self) -> None:
        if self.decision is not None:
            return
        pool = self.pool
        self.decision = decide(pool)
        starts = {start.request_id: start for start in self.decision.start}
        asked = {release.request_id for release in self.decision.release}
        self.backfilled |= {name for name, start in starts.items() if start.backfilled}
        self.backfilled -= {name for name, start in starts.items() if not start.backfilled}
        begun = tuple(
            Running(
                request=request,
                placement=starts[request.id].placement,
                started=pool.now,
                expected_end=None
                if request.expected_run_s is None
                else pool.now + request.expected_run_s,
            )
            for request in pool.waiting
            if request.id in starts
        )
        stay = tuple(
            replace(one, releasing=True) if one.request.id in asked else one for one in pool.running
        )
        self.pool = replace(
            pool,
            running=(*stay, *begun),
            waiting=tuple(request for request in pool.waiting if request.id not in starts),
        )


def _placement(text: str) -> dict[str, int]:
    return {agent: int(slots) for agent, slots in re.findall(r"(\w+) \((\d+)\)", text)}


@pytest.mark.parametrize("story", blocks("example"), ids=lambda text: text.splitlines()[1])
def test_the_examples_come_out_as_told(story: str) -> None:
    told = Story()
    for line in story.splitlines():
        told.tell(line)


def test_every_policy_has_examples() -> None:
    first_lines = " ".join(story.splitlines()[0] for story in blocks("example"))
    assert all(policy in first_lines for policy in get_args(SchedulerType))


def test_the_settings_shown_are_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "master.yaml"
    path.write_text(blocks("yaml")[0])
    (pool,) = load(path).pools()
    assert pool.scheduler == SchedulerSettings()
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", PAGE, re.MULTILINE)
    keys = {"type", "fitting_policy", "allow_heterogeneous_fits", "preemption"}
    assert {key for key, _ in rows} == keys | {"default_priority", "preempt_after", "reserve_after"}
    table = "".join(f"    {key}: {value}\n" for key, value in rows)
    table = table.replace("type: fair_share", "type: priority")
    path.write_text(f"resource_manager:\n  scheduler:\n{table}")
    (pool,) = load(path).pools()
    default = SchedulerSettings()
    assert pool.scheduler == SchedulerSettings(
        type="priority",
        preemption=bool(default.preemption),
        default_priority=default.usual_priority,
    )


def test_the_warning_shown_is_the_one_given(tmp_path: Path) -> None:
    path = tmp_path / "master.yaml"
    path.write_text(blocks("yaml")[1])
    config = load(path)
    assert [bool(pool.scheduler.preemption) for pool in config.pools()] == [True, False]
    assert config.warnings == (blocks("text")[0].strip(),)
