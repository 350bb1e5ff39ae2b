"""A site that two parts of a master ask."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from master.config import load
from master.wiring.batch.site import BatchSite
from provisioner.batch.base import (
    BatchSystem,
    ForeignJob,
    JobPhase,
    JobReport,
    JobSpec,
    NoAnswer,
    SiteFacts,
)
from provisioner.batch.shared_site import OLDEST_S, SITE_FRESH_S, SharedSite
from tests.fakes.fleet_world import CLUSTER
from windlass.base.clock import ManualClock

PREFIXES = ("wl-c-", "wp-c-")


class Counted:
    """Implements BatchSystem; counts what it is asked."""

    name = "slurm"

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.jobs: dict[str, JobReport] = {}
        self.over: dict[str, JobReport] = {}
        """Known by their names alone."""
        self.down = False

    def _count(self, call: str) -> None:
        self.calls[call] += 1
        if self.down:
            raise NoAnswer("squeue: Unable to contact slurm controller")

    async def site(self) -> SiteFacts:
        self._count("site")
        return SiteFacts(version=str(self.calls["site"]))

    async def submit(self, job: JobSpec) -> str:
        self._count("submit")
        self.add(job.name)
        return self.jobs[job.name].job_id

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        self._count("poll")
        known = {**self.over, **self.jobs}
        return {name: known[name] for name in names if name in known}

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        self._count("list")
        return [job for name, job in self.jobs.items() if name.startswith(prefix)]

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        self._count("in_queue")
        return []

    async def look_up(self, job_id: str) -> JobReport | None:
        self._count("look_up")
        return None

    async def cancel(self, job_ids: Collection[str]) -> None:
        self._count("cancel")
        self.jobs = {n: job for n, job in self.jobs.items() if job.job_id not in job_ids}

    async def signal(self, job_id: str, signal: str) -> None:
        self._count("signal")

    def add(self, name: str, phase: JobPhase = JobPhase.QUEUED) -> None:
        self.jobs[name] = JobReport(
            job_id=str(len(self.jobs) + 1), name=name, phase=phase, state=phase.name
        )


class Two:
    """A site, and two that ask it, long after its jobs changed last."""

    def __init__(self) -> None:
        self.site = Counted()
        for name in ("wl-c-1", "wp-c-1", "wl-other-1"):
            self.site.add(name)
        self.clock = ManualClock()
        shared = SharedSite(self.site, PREFIXES, self.clock)
        self.dispatch: BatchSystem = shared.part()
        self.pilots: BatchSystem = shared.part()

    async def listed(self) -> int:
        """How often its jobs were listed when both have asked, one after the other."""
        before = self.site.calls["list"]
        assert set(await self.dispatch.poll(["wl-c-1"])) == {"wl-c-1"}
        self.clock.advance(1)
        assert [job.name for job in await self.pilots.named_like("wp-c-")] == ["wp-c-1"]
        return self.site.calls["list"] - before


async def quiet() -> Two:
    two = Two()
    await two.listed()
    two.clock.advance(100)
    return two


def test_two_who_ask_every_ten_seconds_cost_one_query() -> None:
    async def main() -> None:
        two = await quiet()
        before = two.site.calls["list"]
        for _ in range(6):
            assert await two.listed() == 1
            two.clock.advance(9)
        assert two.site.calls["list"] - before == 6
        assert two.site.calls["poll"] == 0

    asyncio.run(main())


def test_nobody_is_given_the_same_list_twice() -> None:
    async def main() -> None:
        two = await quiet()
        for wanted in (1, 2, 3):
            await two.dispatch.poll(["wl-c-1"])
            assert two.site.calls["list"] == wanted + 2
        assert [job.name for job in await two.pilots.named_like("wp-c-")] == ["wp-c-1"]
        assert two.site.calls["list"] == 5

    asyncio.run(main())


def test_what_asks_at_the_same_time_waits_for_one_answer() -> None:
    async def main() -> None:
        two = await quiet()
        before = two.site.calls["list"]
        await asyncio.gather(two.dispatch.poll(["wl-c-1"]), two.pilots.named_like("wp-c-"))
        assert two.site.calls["list"] - before == 1

    asyncio.run(main())


def test_an_old_list_is_not_given_again() -> None:
    async def main() -> None:
        two = await quiet()
        before = two.site.calls["list"]
        await two.dispatch.poll(["wl-c-1"])
        two.clock.advance(OLDEST_S + 0.1)
        await two.pilots.named_like("wp-c-")
        assert two.site.calls["list"] - before == 2

    asyncio.run(main())


@pytest.mark.parametrize("change", ["submit", "cancel", "signal", "lost", "by the site"])
def test_after_a_change_everybody_asks_for_themselves(change: str, tmp_path: Path) -> None:
    async def main() -> None:
        two = await quiet()
        await two.dispatch.poll(["wl-c-1"])
        two.clock.advance(1)
        spec = JobSpec(
            name="wp-c-2", queue="", nodes=1, gpus_per_node=0, directory=tmp_path, script=""
        )
        match change:
            case "submit":
                await two.pilots.submit(spec)
            case "cancel":
                await two.pilots.cancel(["2"])
            case "signal":
                await two.pilots.signal("2", "TERM")
            case "lost":
                two.site.down = True
                with pytest.raises(NoAnswer):
                    await two.pilots.submit(spec)
                two.site.down = False
            case _:
                two.site.add("wp-c-2")
                await two.dispatch.poll(["wl-c-1"])
                two.clock.advance(0.1)
        before = two.site.calls["list"]
        found = {job.name for job in await two.pilots.named_like("wp-c-")}
        assert two.site.calls["list"] - before == 1
        assert found == {name for name in two.site.jobs if name.startswith("wp-c-")}

    asyncio.run(main())


def test_what_the_list_lacks_is_asked_for_by_name() -> None:
    async def main() -> None:
        two = await quiet()
        gone = JobReport(job_id="9", name="wl-c-9", phase=JobPhase.ENDED, state="COMPLETED")
        two.site.over["wl-c-9"] = gone
        assert await two.dispatch.poll(["wl-c-1", "wl-c-9", "wl-c-8"]) == {
            "wl-c-1": two.site.jobs["wl-c-1"],
            "wl-c-9": gone,
        }
        assert two.site.calls["poll"] == 1

    asyncio.run(main())


def test_a_site_that_does_not_answer_has_no_list() -> None:
    async def main() -> None:
        two = await quiet()
        two.site.down = True
        for part in (two.dispatch, two.pilots):
            with pytest.raises(NoAnswer):
                await part.poll(["wl-c-1"])
        two.site.down = False
        assert await two.listed() == 1

    asyncio.run(main())


def test_what_the_site_is_like_is_asked_once_for_all() -> None:
    async def main() -> None:
        two = Two()
        told = [await part.site() for part in (two.dispatch, two.pilots)]
        assert {site.version for site in told} == {"1"}
        two.clock.advance(SITE_FRESH_S + 1)
        assert (await two.pilots.site()).version == "2"
        assert (await two.dispatch.site()).version == "2"
        assert (await two.dispatch.site()).version == "3", "it was refused by what it heard"

    asyncio.run(main())


PROVIDER: dict[str, Any] = {"type": "slurm", "partition": "gpu"}


@pytest.mark.parametrize(("mode", "is_shared"), [("auto", True), ("dispatch", False)])
def test_a_master_with_both_kinds_of_pools_has_one_list(
    mode: str, is_shared: bool, tmp_path: Path
) -> None:
    file = tmp_path / "master.yaml"
    pools = [{"pool_name": "g", "provider": {**PROVIDER, "mode": mode}}]
    file.write_text(yaml.safe_dump({"resource_pools": pools}))
    site = BatchSite.of(load(file).pools(), CLUSTER, ManualClock())
    assert site is not None
    first, second = site.part().system, site.part().system
    assert (first is not second) == is_shared
