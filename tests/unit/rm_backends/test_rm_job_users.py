"""Jobs of other users than the master's own: who may have them, and that one of them holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent_bootstrap.container_options import OsUser
from provisioner.batch.base import (
    ForeignJob,
    JobPhase,
    JobRefused,
    JobReport,
    NoAnswer,
)
from provisioner.batch.commands import LocalCommands
from provisioner.batch.disks import LocalDisk
from provisioner.batch.impersonation import SiteUsers, UserRefused
from provisioner.batch.job_files import JobShape
from provisioner.leases.poller import JobPoller
from provisioner.leases.unclaimed_jobs import AT_START, UnclaimedJobs
from rm_backends.batch.dispatch_report import DispatchReport
from rm_backends.batch.full_limits import FullLimits
from rm_backends.batch.leases import Lease
from rm_backends.batch.shapes import require_user, shape_of
from tests.fakes.agents_world import agents_world, allocation
from tests.fakes.batch_world import BatchWorld, FakeBatch, slurm_pool
from tests.fakes.dispatch_backend import still_leads
from tests.fakes.virtual_time import run
from windlass.base.errors import LeaseLost, Unsatisfiable

OPTIONS = slurm_pool("gpu", impersonate="sudo", job_storage_root="/jobs", slots_per_node=4)
ALICE = OsUser(uid=1001, gid=1001, user="alice", group="alice")


class OneUsers(FakeBatch):
    """Jobs of one user, as that user sees them."""

    def __init__(self, user: str, refused: Collection[str]) -> None:
        self.user = user
        self.refused_users = refused
        self.silent_users: set[str] = set()
        self.polls = 0
        self.cancelled: list[str] = []
        self.named: list[JobReport] = []
        self.foreign: list[ForeignJob] = []
        self.listings = 0

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        return self.named

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        if self.user in self.silent_users:
            raise NoAnswer("squeue: exit code -9")
        self.listings += 1
        return self.foreign

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        self.polls += 1
        if self.user in self.silent_users:
            raise NoAnswer("squeue: exit code -9")
        if self.user in self.refused_users:
            raise UserRefused(self.user, "a password is required")
        return {name: report(name) for name in names if name != "wl-gone"}

    async def cancel(self, job_ids: Collection[str]) -> None:
        if self.user in self.refused_users:
            raise UserRefused(self.user, "a password is required")
        self.cancelled += job_ids


def report(name: str) -> JobReport:
    return JobReport(job_id=f"of {name}", name=name, phase=JobPhase.RUNNING, state="RUNNING")


def lease(tag: str, user: str) -> Lease:
    shape = JobShape(queue="gpu", nodes=1, slots_per_node=1, gpus_per_node=1, user=user)
    return Lease(tag=tag, pool="gpu", allocation_id=f"task-{tag}", shape=shape, created_at=0)


def systems(*refused: str) -> tuple[JobPoller, dict[str, OneUsers]]:
    made: dict[str, OneUsers] = {}

    def system_of(user: str) -> OneUsers:
        return made.setdefault(user, OneUsers(user, refused))

    users = SiteUsers(
        system_of, lambda _: LocalCommands(), lambda _: LocalDisk(), lambda user: ("sudo", user)
    )
    return JobPoller(system_of(""), still_leads, users), made


async def test_each_job_is_asked_for_as_its_user() -> None:
    asked, made = systems()
    leases = [
        lease("wl-a", "alice"),
        lease("wl-b", "bob"),
        lease("wl-m", ""),
        lease("wl-gone", "bob"),
    ]
    found = await asked.poll(leases)
    assert {name: None if job is None else job.name for name, job in found.items()} == {
        "wl-a": "wl-a",
        "wl-b": "wl-b",
        "wl-m": "wl-m",
        "wl-gone": None,
    }
    await asked.cancel([("alice", "1"), ("", "2"), ("alice", "3")])
    assert {user: one.cancelled for user, one in made.items()} == {
        "alice": ["1", "3"],
        "bob": [],
        "": ["2"],
    }


def test_a_limit_that_one_user_has_reached_holds_up_no_other() -> None:
    full = FullLimits()
    full.note(lease("wl-a", "alice"), "QOSMaxSubmitJobPerUserLimit", now=0.0)
    assert full.keeps_here(lease("wl-b", "alice"), now=1.0)
    assert not full.keeps_here(lease("wl-c", "bob"), now=1.0)


async def test_a_user_whom_sudo_refuses_holds_up_nobody_and_loses_nothing() -> None:
    """Nothing is known of their jobs then: they are in no answer at all."""
    asked, made = systems("bob")
    found = await asked.poll([lease("wl-a", "alice"), lease("wl-b", "bob")])
    assert set(found) == {"wl-a"}
    await asked.cancel([("bob", "1"), ("alice", "2")])
    assert made["alice"].cancelled == ["2"]


async def test_a_user_who_stops_commands_of_theirs_holds_up_nobody() -> None:
    """They are theirs to stop, or to kill: then nothing is known of that user's jobs, and others cost little."""
    asked, made = systems()
    now = 100.0
    asked.now = lambda: now
    leases = [lease("wl-a", "alice"), lease("wl-b", "bob")]
    await asked.poll(leases)
    made["bob"].silent_users.add("bob")
    assert set(await asked.poll(leases)) == {"wl-a"}
    assert asked.trouble("bob") == "squeue: exit code -9"
    assert not asked.trouble("alice")
    await asked.cancel([("bob", "1"), ("alice", "2")])
    assert (made["alice"].cancelled, made["bob"].polls) == (["2"], 2)
    await asked.poll(leases)
    assert made["bob"].polls == 2
    made["bob"].silent_users.clear()
    now += 60
    assert set(await asked.poll(leases)) == {"wl-a", "wl-b"}
    assert not asked.trouble("bob")


async def test_a_command_that_took_long_is_not_called_again_soon() -> None:
    asked, _ = systems()
    asked.now = lambda: 100.0
    asked.hold("bob", NoAnswer("squeue did not end within 60 s"), since=40.0)
    asked.now = lambda: 699.0
    assert asked.is_held("bob")
    asked.now = lambda: 701.0
    assert not asked.is_held("bob")


async def test_jobs_of_users_stay_unknown_when_impersonate_was_removed() -> None:
    asked, made = systems()
    asked.users = None
    assert set(await asked.poll([lease("wl-a", "alice"), lease("wl-m", "")])) == {"wl-m"}
    assert "impersonate is not set" in asked.trouble("alice")
    await asked.cancel([("alice", "1"), ("", "2")])
    assert made[""].cancelled == ["2"]
    with pytest.raises(JobRefused, match="impersonate is not set"):
        asked.of("alice")


async def test_what_the_master_itself_is_not_answered_is_raised() -> None:
    asked, made = systems()
    made[""].silent_users.add("")
    with pytest.raises(NoAnswer):
        await asked.poll([lease("wl-m", "")])


def test_agents_of_whoever_is_not_asked_for_may_be_away_and_nobody_elses(tmp_path: Path) -> None:
    refused: list[str] = []

    async def main() -> None:
        async with agents_world(starts=False) as world:
            options = slurm_pool(impersonate="sudo", job_storage_root="/jobs")
            batch = BatchWorld(world, tmp_path / "jobs", options)

            def system_of(user: str) -> FakeBatch:
                class AsUser(FakeBatch):
                    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
                        if user in refused:
                            raise UserRefused(user, "a password is required")
                        return await super().poll(names)

                seen = AsUser(world)
                seen.__dict__ = batch.site.__dict__
                return seen

            batch.users = SiteUsers(
                system_of, lambda _: LocalCommands(), lambda _: LocalDisk(), lambda _: ()
            )
            await batch.start()
            for number, user in enumerate(("alice", "bob"), 1):
                who = ALICE.model_copy(update={"user": user})
                await world.run_allocation(replace(allocation(number, slots=4), os_user=who))
            refused.append("alice")
            await asyncio.sleep(60)
            away = {
                one.shape.user: batch.dispatcher.may_be_away(one.agents[0])
                for one in batch.dispatcher.leases()
            }
            assert away == {"alice": True, "bob": False}

    run(main(), limit_s=3600)


async def test_jobs_of_a_store_before_it_was_restored_are_told_of_and_those_of_known_users_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A job of a user who is not asked for now is logged when seen twice; nothing is run as that user."""
    asked, made = systems()
    site = made[""]
    site.foreign = [
        ForeignJob(system="slurm", job_id=id_, name=name, user=user, waits=False)
        for id_, name, user in (
            ("1", "wl-c0-lost", "bob"),
            ("2", "wl-c0-known", "alice"),
            ("3", "vasp", "eve"),
            ("4", "wl-c0-ended", "eve"),
            ("5", "wl-c0-too", "alice"),
        )
    ]
    asked.of("alice")
    made["alice"].named = [report("wl-c0-known"), replace(report("wl-c0-too"), job_id="5")]
    unclaimed = UnclaimedJobs(asked, "wl-c0-")
    leases = {"wl-c0-known": lease("wl-c0-known", "alice")}
    await unclaimed.look(leases.values())
    assert not caplog.records
    site.foreign = [replace(one, waits=True) for one in site.foreign if one.job_id != "4"]
    await unclaimed.look(leases.values())
    (told,) = [one.message for one in caplog.records if "not known here" in one.message]
    assert told.startswith("job 1 of user bob is called wl-c0-lost")
    assert {user: one.cancelled for user, one in made.items()} == {"": [], "alice": ["5"]}
    for _ in range(3):
        await unclaimed.look(leases.values())
    assert site.listings == AT_START, "it is asked for at the start alone"


async def test_a_site_that_does_not_list_all_jobs_is_asked_again_and_holds_up_nothing() -> None:
    asked, made = systems()
    site, unclaimed = made[""], UnclaimedJobs(asked, "wl-c0-")
    site.silent_users.add("")
    await unclaimed.look([])
    site.silent_users.clear()
    for _ in range(AT_START + 1):
        await unclaimed.look([])
    assert site.listings == AT_START


async def test_where_all_jobs_are_the_masters_own_no_others_are_listed() -> None:
    asked, made = systems()
    asked.users = None
    await UnclaimedJobs(asked, "wl-c0-").look([])
    assert made[""].listings == 0


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (None, "submits each job as its user, and olga is linked to none"),
        (OsUser(), "submits no job as root, to whom olga is linked"),
        (ALICE.model_copy(update={"uid": 0}), "submits no job as root"),
        (ALICE.model_copy(update={"user": "root"}), "submits no job as root"),
    ],
)
def test_who_is_linked_to_nobody_or_to_root_has_no_job(who: OsUser | None, said: str) -> None:
    request = replace(allocation(1, slots=1), user="olga", os_user=who)
    with pytest.raises(Unsatisfiable, match=said):
        require_user(request, OPTIONS)
    require_user(request, slurm_pool("gpu", slots_per_node=4))


def test_a_job_is_of_the_user_only_where_the_pool_says_so() -> None:
    request = replace(allocation(1, slots=1), os_user=ALICE)
    assert shape_of(request, OPTIONS, None).user == "alice"
    assert shape_of(request, slurm_pool("gpu", slots_per_node=4), None).user == ""


def test_requests_that_are_alike_but_of_different_users_wait_for_different_reasons() -> None:
    telling = DispatchReport(
        options=OPTIONS,
        leases=(),
        queue=None,
        trouble=lambda _: "",
        full=lambda *_: None,
        joined=lambda _: 0,
        now=0,
    )
    olga = replace(allocation(1), user="olga")
    alice = replace(allocation(2), user="alice", os_user=ALICE)
    reasons = telling.availability([olga, alice]).reasons
    assert "olga is linked to none" in reasons[olga.allocation_id].text
    assert reasons[alice.allocation_id].text == "a batch job is to be submitted for it"


async def test_a_master_that_leads_no_more_cancels_nothing() -> None:
    """Another master leads by now: jobs that this one does not know may be of that one."""
    asked, made = systems()

    async def leads_no_more() -> None:
        raise LeaseLost

    asked.check_lease = leads_no_more
    made[""].named = [report("wl-c0-new")]
    unclaimed = UnclaimedJobs(asked, "wl-c0-")
    await unclaimed.look([])
    with pytest.raises(LeaseLost):
        await unclaimed.look([])
    assert made[""].cancelled == []
