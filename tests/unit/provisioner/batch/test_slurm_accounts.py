"""Which accounts a user of Slurm may name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import COMMAND_LIMIT_S, FinishedCommand
from provisioner.batch.slurm.accounts import account_problems, accounts_of
from provisioner.batch.slurm.system import SlurmSystem
from tests.fakes.slurm_commands import FakeSlurm
from tests.unit.provisioner.batch.test_slurm_arguments import JOB

SAID = "research|high,normal\nresearch|scav\nother|\n|x\nnothing\n"


def test_accounts_with_the_qos_of_each() -> None:
    """One of several partitions has several lines."""
    assert accounts_of(SAID, qos_counts=True) == {
        "research": {"high", "normal", "scav"},
        "other": frozenset(),
    }
    assert accounts_of(SAID, qos_counts=False) == {"research": frozenset(), "other": frozenset()}
    assert accounts_of("", qos_counts=True) == {}


class Site(FakeSlurm):
    """With these settings."""

    def __init__(self, settings: str, *, fails: bool = False) -> None:
        super().__init__()
        self.settings = settings
        self.fails = fails
        self.said = SAID
        self.lines: list[Sequence[str]] = []

    async def run(
        self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
    ) -> FinishedCommand:
        self.lines.append(words)
        match list(words):
            case ["scontrol", "show", "config"]:
                return FinishedCommand(0, self.settings)
            case ["id", "-un"]:
                return FinishedCommand(0, "alice\n")
            case ["sacctmgr", "-nP", "show", "assoc", "user=alice", _]:
                return (
                    FinishedCommand(1, "", "no slurmdbd")
                    if self.fails
                    else FinishedCommand(0, self.said)
                )
        return await super().run(words, stdin=stdin, limit_s=limit_s)


@pytest.mark.parametrize(
    ("settings", "fails", "known"),
    [
        ("AccountingStorageEnforce = associations,limits,qos\n", False, True),
        ("AccountingStorageEnforce = associations,limits,qos\n", True, False),
        ("AccountingStorageEnforce = none\n", False, False),
        ("", False, False),
    ],
)
def test_they_are_asked_for_where_only_they_are_taken(
    settings: str, fails: bool, known: bool
) -> None:
    """Once in an hour; where nobody says them, every account may be given."""
    site = Site(settings, fails=fails)
    system = SlurmSystem(site)
    for _ in range(3):
        told = asyncio.run(system.site())
        assert (told.accounts is not None) is known
    assert sum(words[:3] == ("scontrol", "show", "config") for words in site.lines) == 1


def test_a_user_without_an_account_is_refused_until_there_is_one() -> None:
    """It is asked for at each look then: whoever asks for an account waits for it."""
    site = Site("AccountingStorageEnforce = associations\n")
    system, site.said = SlurmSystem(site), ""
    (problem,) = account_problems((), asyncio.run(system.site()))
    assert "the user who submits the job has no account at the site" in problem
    assert "ask the site for one" in problem
    site.said = SAID
    assert not list(account_problems((), asyncio.run(system.site())))


@pytest.mark.parametrize(("tracked", "given"), [("Yes", True), ("No", False)])
def test_wckeys_are_given_where_the_site_has_them(tracked: str, given: bool) -> None:
    site = Site(f"TrackWCKey = {tracked}\n")
    system = SlurmSystem(site)
    asyncio.run(system.site())
    asyncio.run(system.submit(replace(JOB, project="vision", walltime_s=60)))
    line = next(words for words in site.lines if words[0] == "sbatch")
    assert ("--wckey=vision" in line) is given


@pytest.mark.parametrize(
    "ended",
    [
        FinishedCommand(-9),
        FinishedCommand(-15, "", "slurmstepd: error: killed"),
        FinishedCommand(1),
    ],
)
def test_sbatch_that_was_ended_may_have_submitted(ended: FinishedCommand) -> None:
    """By a signal, or without a word: that is no refusal, after which it would be submitted again."""

    class Ends(Site):
        async def run(
            self, words: Sequence[str], *, stdin: str = "", limit_s: float = COMMAND_LIMIT_S
        ) -> FinishedCommand:
            return ended

    with pytest.raises(NoAnswer):
        asyncio.run(SlurmSystem(Ends("")).submit(replace(JOB, walltime_s=60)))
