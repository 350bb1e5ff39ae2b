"""What only batch jobs do as machines: names that are looked for, schedulers that are down, walltimes, limits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from provisioner.batch import collector
from provisioner.batch.base import EndCause, JobReport, NoAnswer, Queue, SiteFacts
from provisioner.batch.job_files import JobFiles, JobShape
from provisioner.batch.slurm.system import SlurmSystem
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import Accepted, FoundState, LaunchIntent
from provisioner.providers.errors import Refusal
from provisioner.providers.pilots.book import PilotBook
from provisioner.providers.pilots.offers import PilotOptions, offers_of, staggered
from provisioner.providers.pilots.times import MARGIN_S, STAGGER
from provisioner.sections.batch import SlurmSection
from provisioner.types import Scope
from tests.contract.providers.base import POOL, a_token
from tests.contract.providers.pilots import FakePilotCase, pilots
from tests.fakes.fleet_world import an_intent
from windlass.base.errors import LeaseLost

QUEUE = Queue(name="gpu", is_default=True, nodes=8, gpus_per_node=4, max_walltime_s=7200.0)
SITE = SiteFacts(queues={"gpu": QUEUE, "cpu": Queue(name="cpu", nodes=2, cpus_per_node=16)})


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[FakePilotCase]:
    async with pilots(tmp_path) as one:
        yield one


def sold(site: SiteFacts | None = SITE, queued: int = 0, **more: Any) -> list[tuple[str, int]]:
    return [(o.key.instance_type, o.slots) for o, _ in of(site, queued, **more)]


def of(site: SiteFacts | None = SITE, queued: int = 0, **more: Any) -> list[tuple]:  # type: ignore[type-arg]
    section = SlurmSection(type="slurm", mode="pilot", **more)
    files = JobFiles(root=Path("/jobs"), python="python3", agent={})
    options = PilotOptions(pool="p", section=section, files=files)
    return list(offers_of("slurm", options, site, queued))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [("cuda-4x2h", 4)]),
        ({"walltimes": ["30m", "2h", "150m"]}, [("cuda-4x30m", 4), ("cuda-4x2h", 4)]),
        ({"walltimes": ["150m"]}, [("cuda-4x2h", 4)]),
        ({"gpu_type": "a100", "slots_per_node": 2}, [("a100-2x2h", 2)]),
        ({"partition": "cpu"}, [("cpu-1x4h", 1)]),
        ({"partition": "cpu", "slots_per_node": 8}, [("cpu-8x4h", 8)]),
        ({"partition": "gone", "slots_per_node": 8}, [("cuda-8x4h", 8)]),
    ],
)
def test_offers(options: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    assert sold(**options) == expected


def test_a_site_that_is_not_known_sells_what_is_configured() -> None:
    assert sold(None) == []
    assert sold(None, slots_per_node=4) == [("cuda-4x4h", 4)]


def test_an_offer_says_what_limits_it() -> None:
    ((offer, _),) = of(queued=99, usd_per_slot_hour=0.5)
    assert offer.usd_per_hour == 2.0
    assert offer.quota is not None
    assert offer.quota.left == 1
    assert offer.most_together == 8
    assert offer.queue_deadline_s is None
    assert offer.lifetime_s == 7200 * (1 - STAGGER) - MARGIN_S


def test_pilots_that_were_submitted_together_end_apart() -> None:
    shape = JobShape(queue="gpu", nodes=1, slots_per_node=4, gpus_per_node=4, walltime_s=36_000.0)
    ends = [staggered(shape, f"token-{n}").walltime_s or 0.0 for n in range(50)]
    assert len(set(ends)) > 25
    assert min(ends) >= 36_000 * (1 - STAGGER)
    assert max(ends) <= 36_000
    assert all(end % 60 == 0 for end in ends)
    assert staggered(shape, "token-7").walltime_s == ends[7]


async def test_a_scheduler_that_is_down_is_no_end_and_no_refusal(case: FakePilotCase) -> None:
    ids = (await case.launch(case.intent(2))).instance_ids
    case.slurm.down = {"squeue": -1, "sbatch": -1, "scancel": -1, "scontrol": -1}
    with pytest.raises(NoAnswer):
        await case.provider.list()
    with pytest.raises(TimeoutError):
        await case.provider.launch(case.intent())
    case.mend()
    assert set(await case.living()) == set(ids)


async def test_what_was_not_answered_is_looked_for_before_it_is_submitted_again(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only after the site has not known it for a while."""
    monkeypatch.setattr(case.provider, "_proof_s", 60.0)
    now = time.time()
    monkeypatch.setattr(case.provider, "_now", lambda: now)
    case.drop_requests(1)
    intent = case.intent()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await case.provider.launch(intent)
    assert case.slurm.calls.count("sbatch") == 1
    now += 61
    assert (await case.launch(intent)).instance_ids
    assert case.slurm.calls.count("sbatch") == 2
    assert len(case.slurm.jobs) == 1


async def test_a_list_that_leaves_out_a_job_does_not_end_it(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the JSON of newer releases of OpenPBS. What the site says of each job counts all the same."""
    ids = (await case.launch(case.intent())).instance_ids

    async def nothing(system: SlurmSystem, prefix: str) -> Sequence[JobReport]:
        return []

    monkeypatch.setattr(SlurmSystem, "named_like", nothing)
    for _ in range(3):
        assert set(await case.living()) == set(ids)


async def test_how_a_job_ended_is_asked_of_it_alone(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent_id,) = (await case.launch(case.intent())).instance_ids
    listed = SlurmSystem.named_like

    async def little(system: SlurmSystem, prefix: str) -> Sequence[JobReport]:
        return [replace(job, cause=None) for job in await listed(system, prefix)]

    monkeypatch.setattr(SlurmSystem, "named_like", little)
    case.kill(agent_id)
    (ended,) = (await case.provider.list()).instances
    assert ended.state is FoundState.ENDED
    assert "failed" in ended.detail


async def test_a_job_of_its_name_is_its_own_only_if_it_is_of_its_user(case: FakePilotCase) -> None:
    """Names can be seen in the queue, and given to any job."""
    await case.launch(case.intent())
    ours = case.slurm.jobs[1]
    case.slurm.jobs[2] = replace(ours, id=2, is_ours=False)
    found = await SlurmSystem(case.slurm).poll([ours.name])
    assert found[ours.name].job_id == "1"


async def test_a_crash_between_the_record_and_the_call_is_found_by_name(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = case.intent()
    case.slurm.hangs.add("sbatch")
    call = asyncio.ensure_future(case.provider.launch(intent))
    await case.slurm.hung.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    case.mend()
    await case.restart()
    monkeypatch.setattr(case.provider, "_arrival_s", 60.0)
    now = time.time()
    monkeypatch.setattr(case.provider, "_now", lambda: now)
    with pytest.raises(TimeoutError):  # its sbatch may still run
        await case.provider.launch(intent)
    now += 61
    assert (await case.launch(intent)).instance_ids
    assert len(case.slurm.jobs) == 1


async def test_a_job_that_the_site_has_forgotten_is_over_only_after_proof(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    (id_,) = (await case.launch(case.intent())).instance_ids
    monkeypatch.setattr(case.provider, "_proof_s", 60.0)
    now = time.time()
    monkeypatch.setattr(case.provider, "_now", lambda: now)
    case.slurm.jobs.clear()
    assert set(await case.living()) == {id_}
    now += 61
    (gone,) = await case.listed()
    assert gone.state is FoundState.ENDED
    assert "is not known to the site any more" in gone.detail


async def test_the_time_for_which_a_job_is_absent_counts_over_a_restart(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await case.launch(case.intent())
    await case.provider.list()
    case.slurm.jobs.clear()
    begun = time.time()
    for now, state in ((begun, FoundState.RUNNING), (begun + 61, FoundState.ENDED)):
        await case.restart()
        monkeypatch.setattr(case.provider, "_proof_s", 60.0)
        monkeypatch.setattr(case.provider, "_now", lambda now=now: now)
        (machine,) = await case.listed()
        assert machine.state is state


async def test_where_a_site_forgets_a_job_at_its_end_what_that_noted_counts(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PBS without history."""
    await case.launch(case.intent())
    await case.provider.list()
    monkeypatch.setattr(case.provider, "_proof_s", 60.0)
    (folder,) = (case.folder / "jobs").iterdir()
    (folder / "told-to-end").write_text(f"{int(case.slurm.jobs[1].end or 0)}\n")
    case.slurm.jobs.clear()
    (ended,) = await case.listed()
    assert (ended.state, ended.detail) == (FoundState.ENDED, "job 1 reached its time limit")


async def test_records_of_the_first_release_with_pilots_are_read(case: FakePilotCase) -> None:
    """They do not say whether their submission was answered: it may still run."""
    intent = TypeAdapter(LaunchIntent).dump_python(case.intent(), mode="json")
    old = {
        "format": 1,
        "tag": "wp-1",
        "intent": intent,
        "written_at": 5.0,
        "array": "wp-a",
        "number": 3,
        "job_id": None,
        "ran": True,
        "ends_at": 900.0,
        "cancelled": False,
        "never_since": 4.0,
        "refused": "",
        "over_at": 6.0,
        "disabled": ["n1"],
        "unused": [],
        "bad_before": 7.0,
        "ended_at": None,
        "cause": "timeout",
        "how": "so",
    }
    (case.folder / "pilots").mkdir()
    (case.folder / "pilots" / "wp-1.json").write_text(json.dumps(old))
    (pilot,) = case.book()
    assert (pilot.job_name, pilot.ran, pilot.ends_at, pilot.how) == ("wp-a.3", True, 900.0, "so")
    assert (pilot.cause, pilot.disabled, pilot.may_run) == (EndCause.TIMEOUT, ("n1",), True)
    assert pilot.never_since is None, "the site has to say it anew"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("CANCELLED", "job 1 on n1 was cancelled at the site"),
        ("NODE_FAIL", "job 1: a node of n1 failed"),
        ("TIMEOUT", "job 1 on n1 reached its time limit"),
        ("PREEMPTED", "job 1 on n1 was preempted by the site"),
    ],
)
async def test_an_end_is_told_in_words(case: FakePilotCase, state: str, words: str) -> None:
    await case.launch(case.intent())
    case.slurm.jobs[1].finish(state, time.time())
    (ended,) = await case.listed()
    assert (ended.state, ended.detail) == (FoundState.ENDED, words)


async def test_a_queued_job_that_somebody_cancels_came_to_nothing(case: FakePilotCase) -> None:
    case.queue(case.offer)
    accepted = await case.accepted(case.intent())
    case.slurm.jobs[1].finish("CANCELLED", time.time())
    with pytest.raises(Refusal, match="job 1 was cancelled at the site") as refused:
        await case.provider.answer(accepted.handle)
    assert refused.value.kind is BlockKind.CAPACITY


async def test_a_job_that_the_site_will_never_start_blocks_its_offer_and_is_cancelled(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has said so for a while; other walltimes are tried then."""
    now = time.time()
    monkeypatch.setattr(case.provider, "_now", lambda: now)
    case.queue(case.offer)
    accepted = await case.accepted(case.intent())
    case.slurm.jobs[1].reason = "QOSMaxWallDurationPerJobLimit"
    assert isinstance(await case.provider.answer(accepted.handle), Accepted)
    now += 21
    await case.provider.list()
    with pytest.raises(
        Refusal, match="will never start like this: give a shorter --time"
    ) as refused:
        await case.provider.answer(accepted.handle)
    assert (refused.value.kind, refused.value.scope) == (BlockKind.CONFIG, Scope.of(case.offer.key))
    assert refused.value.retry_after_s is not None
    for _ in range(2):
        now += 10
        assert not (await case.provider.list()).groups
    assert case.slurm.jobs[1].state == "CANCELLED"
    await case.restart()
    with pytest.raises(Refusal, match="give a shorter --time"):
        await case.provider.answer(accepted.handle)


async def test_a_site_that_was_away_has_to_say_anew_that_it_will_never_start_a_job(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(case.provider, "_now", lambda: now)
    case.queue(case.offer)
    accepted = await case.accepted(case.intent())
    case.slurm.jobs[1].reason = "QOSMaxWallDurationPerJobLimit"
    await case.provider.list()
    case.fail_lists()
    now += 60
    with pytest.raises(NoAnswer):
        await case.provider.list()
    case.mend()
    await case.provider.list()
    assert isinstance(await case.provider.answer(accepted.handle), Accepted)
    now += 21
    await case.provider.list()
    with pytest.raises(Refusal, match="give a shorter --time"):
        await case.provider.answer(accepted.handle)


@pytest.mark.parametrize(
    ("said", "of_all_walltimes"),
    [
        ("Invalid account or account/partition combination specified", True),
        ("Requested time limit is invalid (missing or exceeds some limit)", False),
    ],
)
async def test_a_refusal_for_good_is_tried_again_after_a_while(
    case: FakePilotCase, said: str, of_all_walltimes: bool
) -> None:
    case.slurm.refusal = f"sbatch: error: Batch job submission failed: {said}\n"
    with pytest.raises(Refusal, match=said.split("(")[0]) as refused:
        await case.provider.launch(case.intent())
    assert (refused.value.kind, refused.value.retry_after_s) == (BlockKind.CONFIG, 600.0)
    assert refused.value.scope is not None
    assert (refused.value.scope.instance_type is None) is of_all_walltimes


async def test_what_queues_says_why(case: FakePilotCase) -> None:
    case.queue(case.offer)
    await case.accepted(case.intent(2))
    case.slurm.jobs[1].start = time.time() + 600
    (group,) = (await case.provider.list()).groups
    assert group.accepted.reason == (
        "Slurm job 1 is pending: Resources (no nodes of that shape are free)"
    )
    assert group.accepted.starts_at == int(case.slurm.jobs[1].start)
    (view,) = case.provider.batch_jobs()
    assert (view.purpose, view.stage, view.site_state, view.nodes) == (
        "machines",
        "queued",
        "PENDING",
        2,
    )
    assert (view.reason, view.starts_at) == (group.accepted.reason, group.accepted.starts_at)


async def test_a_launch_is_one_job_of_all_its_nodes(case: FakePilotCase) -> None:
    result = await case.launch(case.intent(3))
    (job,) = case.slurm.jobs.values()
    assert job.nodes == 3
    assert result.instance_ids == tuple(f"{job.name}-{n}" for n in range(3))
    (view,) = case.provider.batch_jobs()
    assert (view.name, view.stage, view.agents) == (job.name, "running", result.instance_ids)
    assert job.name.startswith("wp-")


async def test_an_end_that_moves_is_followed(case: FakePilotCase) -> None:
    await case.launch(case.intent())
    (first,) = (await case.living()).values()
    job = case.slurm.jobs[1]
    assert job.end is not None
    assert first.ends_at == int(job.end) - MARGIN_S
    job.end += 3600
    (longer,) = (await case.living()).values()
    assert longer.ends_at == int(job.end) - MARGIN_S
    assert longer.leaves_at is None


async def test_jobs_of_another_state_of_our_folder_are_cancelled(case: FakePilotCase) -> None:
    await case.launch(case.intent())
    other = FakePilotCase(case.folder / "restored")
    other.slurm.jobs = case.slurm.jobs
    await other.provider.open()
    await other.provider.list()
    assert case.slurm.jobs[1].state == "RUNNING", "it may only just have been made"
    await other.provider.list()
    assert case.slurm.jobs[1].state == "CANCELLED"


async def test_a_cancelled_job_whose_nodes_are_long_in_ending_is_not_cancelled_again(
    case: FakePilotCase,
) -> None:
    case.queue(case.offer)
    accepted = await case.accepted(case.intent())
    await case.provider.cancel(accepted.handle)
    case.slurm.jobs[1].state = "COMPLETING"
    for _ in range(3):
        await case.provider.list()
    assert case.slurm.calls.count("scancel") == 1
    case.slurm.jobs[1].state = "RUNNING"
    for _ in range(2):
        await case.provider.list()
    assert case.slurm.calls.count("scancel") == 2, "the first one came to nothing"


async def test_a_job_that_the_site_does_not_cancel_hides_no_others(case: FakePilotCase) -> None:
    await case.launch(case.intent())
    other = FakePilotCase(case.folder / "restored")
    other.slurm.jobs = case.slurm.jobs
    other.slurm.denies_cancel = True
    await other.provider.open()
    (id_,) = (await other.launch(other.intent())).instance_ids
    for _ in range(3):
        assert set(await other.living()) == {id_}
    other.slurm.denies_cancel = False
    await other.provider.list()
    assert case.slurm.jobs[1].state == "CANCELLED"


async def test_a_master_that_leads_no_more_cancels_no_jobs_of_the_one_that_does(
    case: FakePilotCase,
) -> None:
    """It stood still while another took over with a copy of its data folder."""
    await case.launch(case.intent())
    old = FakePilotCase(case.folder / "old")
    old.slurm.jobs = case.slurm.jobs
    await old.provider.open()
    await old.provider.list()
    old.lease = LeaseLost("master two leads")
    for _ in range(2):
        with pytest.raises(LeaseLost):
            await old.provider.list()
    assert case.slurm.jobs[1].state == "RUNNING"


async def test_a_list_and_a_cancellation_at_once_lose_neither(
    case: FakePilotCase,
) -> None:
    case.queue(case.offer)
    accepted = await case.accepted(case.intent())
    (queued,) = case.provider._book
    await case.provider._put(queued, lambda one: replace(one, cancelled=True))
    await case.provider._put(queued, lambda one: replace(one, ran=True))
    (pilot,) = PilotBook(case.folder / "pilots")
    assert pilot.tag == accepted.handle
    assert pilot.cancelled
    assert pilot.ran


async def test_a_submission_that_takes_long_keeps_its_record(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.slurm.hangs.add("sbatch")
    call = asyncio.ensure_future(case.provider.launch(case.intent()))
    await case.slurm.hung.wait()
    later = time.time() + 3600
    monkeypatch.setattr(case.provider, "_now", lambda: later)
    await case.provider.list()
    assert len([*case.provider._book]) == 1, "its job may be made at this instant"
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await case.provider.list()
    assert not [*case.provider._book]


async def test_its_directory_is_private_and_goes_when_it_is_over(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await case.launch(case.intent())
    (folder,) = (case.folder / "jobs").iterdir()
    (told,) = folder.glob("nodes/*/host.json")
    assert told.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert json.loads(told.read_text())["agent"]["join_token"] == "join-me"
    (record,) = (case.folder / "pilots").iterdir()
    assert "join-me" not in record.read_text()
    case.slurm.jobs[1].finish("COMPLETED", time.time())
    await case.provider.list()
    assert not case.provider.is_live(folder.name)
    later = time.time() + 3600
    monkeypatch.setattr(case.provider, "_now", lambda: later)
    await case.provider.list()
    assert not folder.exists()
    assert not record.exists()


async def test_one_call_for_all_jobs_and_none_for_each_answer(case: FakePilotCase) -> None:
    case.queue(case.offer)
    handles = [(await case.accepted(case.intent(token=a_token()))).handle for _ in range(20)]
    await case.provider.list()
    case.provider._fresh_s = 5.0
    case.slurm.calls.clear()
    answers = await asyncio.gather(*(case.provider.answer(handle) for handle in handles))
    assert all(isinstance(answer, Accepted) for answer in answers)
    await case.provider.list()
    assert case.slurm.calls == ["squeue"]


async def test_an_offer_that_is_gone_is_refused_before_anything_is_written(
    case: FakePilotCase,
) -> None:
    offer = replace(case.offer, key=replace(case.offer.key, instance_type="cuda-2x9h"))
    with pytest.raises(Refusal, match="not for sale any more"):
        case.provider.freeze(an_intent(offer, token=a_token(), pool=POOL))


async def test_an_end_is_told_after_what_tasks_left_in_the_directory(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a master that was restarted in between. Its agents are not lost for being away meanwhile."""
    asked, may_end = asyncio.Event(), asyncio.Event()

    async def run_(words: Sequence[str]) -> int:
        asked.set()
        await may_end.wait()
        return 0

    monkeypatch.setattr(collector, "_run", run_)
    (id_,) = (await case.launch(case.intent())).instance_ids
    assert not case.provider.may_be_away(id_)
    (folder,) = (case.folder / "jobs").iterdir()
    (folder / "nodes/0/agent/containers/task-1").mkdir(parents=True)
    case.slurm.jobs[1].finish("NODE_FAIL", time.time())
    for restarted in (False, True):
        if restarted:
            await case.restart()
        running = asyncio.create_task(case.provider.run())
        await asyncio.sleep(0)
        for _ in range(3):
            (machine,) = await case.listed()
            assert (machine.state, machine.detail) == (
                FoundState.RUNNING,
                "job 1: a node of n1 failed",
            )
        assert case.provider.may_be_away(id_)
        assert case.provider.is_live(folder.name), "what tells joins with the token of the job"
        await asked.wait()
        asked.clear()
        if not restarted:
            running.cancel()
    may_end.set()
    async with asyncio.timeout(60):
        while (await case.listed())[0].state is not FoundState.ENDED:
            pass
    assert not case.provider.may_be_away(id_)
    running.cancel()


async def test_while_the_site_does_not_answer_no_agent_is_lost_for_being_away(
    case: FakePilotCase,
) -> None:
    (id_,) = (await case.launch(case.intent())).instance_ids
    case.slurm.down = {"squeue": -1}
    with pytest.raises(NoAnswer):
        await case.provider.list()
    assert case.provider.may_be_away(id_)
    await case.restart()
    assert case.provider.may_be_away(id_)
    case.mend()
    await case.provider.list()
    assert not case.provider.may_be_away(id_)
    assert not case.provider.may_be_away("an-agent-of-somebody")
