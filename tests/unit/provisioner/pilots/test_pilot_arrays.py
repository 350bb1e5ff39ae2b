"""Equal pilots of one node that come together: one submission, and each queues, runs and ends by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import Accepted, FoundState, LaunchAnswer, LaunchIntent
from provisioner.providers.errors import Refusal
from provisioner.providers.pilots.times import MARGIN_S, STAGGER
from tests.contract.providers.base import POOL, a_token
from tests.contract.providers.pilots import SAID, FakePilotCase, pilots
from windlass.base.errors import LeaseLost


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[FakePilotCase]:
    async with pilots(tmp_path) as one:
        yield one


def equal(case: FakePilotCase, count: int) -> list[LaunchIntent]:
    return [case.intent(token=a_token()) for _ in range(count)]


async def launched(
    case: FakePilotCase, intents: list[LaunchIntent]
) -> list[LaunchAnswer | BaseException]:
    calls = (case.provider.launch(intent) for intent in intents)
    return await asyncio.gather(*calls, return_exceptions=True)


def handles(answers: list[LaunchAnswer | BaseException]) -> list[str]:
    accepted = [one for one in answers if isinstance(one, Accepted)]
    assert len(accepted) == len(answers), answers
    return [one.handle for one in accepted]


async def test_equal_ones_are_one_submission_and_each_is_a_job_by_itself(
    case: FakePilotCase,
) -> None:
    case.queue(case.offer)
    tags = handles(await launched(case, equal(case, 3)))
    assert case.slurm.calls.count("sbatch") == 1
    waiting = (await case.provider.list()).groups
    assert sorted(one.accepted.handle for one in waiting) == sorted(tags)
    assert {one.count for one in waiting} == {1}
    assert sorted(one.accepted.reason.split(" is ")[0] for one in waiting) == [
        f"Slurm job 1_{number}" for number in range(3)
    ]
    await case.provider.cancel(tags[1])
    case.deliver()
    assert set(await case.living()) == {f"{tags[0]}-0", f"{tags[2]}-0"}
    await case.provider.terminate([f"{tags[0]}-0"])
    assert set(await case.living()) == {f"{tags[2]}-0"}


async def test_each_has_a_directory_with_its_own_token_settings_and_log(
    case: FakePilotCase,
) -> None:
    tags = handles(await launched(case, equal(case, 3)))
    name = case.slurm.jobs[1].name
    folders = sorted((case.folder / "jobs").iterdir())
    assert [folder.name for folder in folders] == [f"{name}.{number}" for number in range(3)]
    told = [folder / "nodes" / "0" / "host.json" for folder in folders]
    assert [json.loads(one.read_bytes())["instance_id"] for one in told] == [
        f"{tag}-0" for tag in tags
    ]
    assert {one.stat().st_mode & 0o777 for one in told} == {0o600}
    (folders[1] / "batch.log").write_text("no such file: python3\n")
    assert await case.provider.console(f"{tags[1]}-0") == "no such file: python3"


async def test_one_time_limit_and_ends_apart(case: FakePilotCase) -> None:
    await launched(case, equal(case, 20))
    limits = {job.limit_s for job in case.slurm.jobs.values()}
    assert limits == {4 * 3600.0}
    of_site = min(int(job.end or 0) for job in case.slurm.jobs.values())
    ends = [one.ends_at for one in (await case.living()).values() if one.ends_at is not None]
    assert len(ends) == 20
    assert len(set(ends)) > 10
    assert max(ends) <= of_site - MARGIN_S + 60
    assert min(ends) >= of_site - MARGIN_S - STAGGER * 4 * 3600
    assert not any(one.leaves_at for one in (await case.living()).values())


async def test_each_ends_when_its_own_time_is_over(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    await launched(case, equal(case, 20))
    ends = {name: one.ends_at or 0.0 for name, one in (await case.living()).items()}
    now = sorted(ends.values())[10] + MARGIN_S
    monkeypatch.setattr(case.provider, "_now", lambda: now)
    case.lease = LeaseLost("another master leads")
    with pytest.raises(LeaseLost):
        await case.provider.list()
    case.lease = None
    await case.provider.list()
    ended = [one for one in await case.listed() if one.state is FoundState.ENDED]
    assert {one.instance_id for one in ended} == {
        name for name, end in ends.items() if end + MARGIN_S <= now
    }
    assert 10 < len(ended) < 20
    assert all("reached its time limit" in one.detail for one in ended)


async def test_others_are_jobs_of_their_own(case: FakePilotCase) -> None:
    """Gangs, and pilots of another time limit."""
    short, long = case.offer, (case.provider.could_offer(POOL)[1])
    intents = [
        case.intent(2, token=a_token()),
        case.intent(2, token=a_token()),
        case.intent(token=a_token(), offer=short),
        case.intent(token=a_token(), offer=long),
    ]
    await launched(case, intents)
    assert case.slurm.calls.count("sbatch") == 4
    assert not any(job.array for job in case.slurm.jobs.values())


async def test_a_limit_of_the_site_leaves_room_for_some(case: FakePilotCase) -> None:
    """They are submitted in smaller pieces; the rest is refused with the limit, and leaves nothing."""
    case.slurm.room = 7
    answers = await launched(case, equal(case, 20))
    assert sum(isinstance(one, Accepted) for one in answers) == 7
    refused = [one for one in answers if isinstance(one, Refusal)]
    assert len(refused) == 13
    assert {(one.kind, one.quota) for one in refused} == {
        (BlockKind.QUOTA, "QOSMaxSubmitJobPerUserLimit")
    }
    assert len(await case.living()) == 7
    assert len(list((case.folder / "jobs").iterdir())) == 7
    assert len(list((case.folder / "pilots").iterdir())) == 7
    assert case.slurm.calls.count("sbatch") < 12


async def test_what_is_wrong_with_one_is_wrong_with_all(case: FakePilotCase) -> None:
    case.slurm.refusal = SAID[BlockKind.CONFIG]
    answers = await launched(case, equal(case, 5))
    assert all(isinstance(one, Refusal) and one.kind is BlockKind.CONFIG for one in answers)
    assert case.slurm.calls.count("sbatch") == 1
    assert not list((case.folder / "jobs").iterdir())


async def test_an_array_whose_answer_is_lost_is_found_by_its_name(case: FakePilotCase) -> None:
    case.lose_replies(1)
    intents = equal(case, 4)
    assert all(isinstance(one, TimeoutError) for one in await launched(case, intents))
    await case.restart()
    await launched(case, intents)
    assert case.slurm.submitted == 4
    living = await case.living()
    assert len(living) == 4
    assert {one.state for one in living.values()} == {FoundState.RUNNING}


async def test_who_leads_may_be_given_up_and_nothing_is_submitted_twice(
    case: FakePilotCase,
) -> None:
    """Its call has a deadline; the others do not know then what became of the array."""
    case.slurm.hangs.add("sbatch")
    intents = equal(case, 3)
    calls = [asyncio.ensure_future(case.provider.launch(intent)) for intent in intents]
    await case.slurm.hung.wait()
    calls[0].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in answers] == [asyncio.CancelledError, TimeoutError, TimeoutError]
    case.mend()
    handles(await launched(case, intents))
    assert case.slurm.submitted == 3
    assert case.slurm.calls.count("sbatch") == 2


async def test_one_that_is_given_up_before_the_call_is_left_out(case: FakePilotCase) -> None:
    intents = equal(case, 3)
    calls = [asyncio.ensure_future(case.provider.launch(intent)) for intent in intents]
    await asyncio.sleep(0)
    calls[2].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[2], asyncio.CancelledError)
    assert case.slurm.submitted == 2
    handles(await launched(case, intents[2:]))
    assert len(await case.living()) == 3


async def test_a_site_without_arrays_takes_them_one_by_one(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(case.provider._system), "most_tasks", 1)
    await launched(case, equal(case, 3))
    assert case.slurm.calls.count("sbatch") == 3
    assert len(await case.living()) == 3


async def test_one_of_an_array_that_somebody_cancels_while_it_queues_comes_to_nothing(
    case: FakePilotCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller says no more than that it does not have it, and goes on with the others."""
    case.queue(case.offer)
    tags = handles(await launched(case, equal(case, 3)))
    await case.slurm.run(["scancel", "1_1"])
    await case.provider.list()
    await case.provider.list()
    with pytest.raises(Refusal, match="job 1_1 is not known to the site any more"):
        await case.provider.answer(tags[1])
    case.deliver()
    assert set(await case.living()) == {f"{tags[0]}-0", f"{tags[2]}-0"}
