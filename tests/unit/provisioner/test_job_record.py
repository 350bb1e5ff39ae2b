"""What is noted of a job, whoever asked for it, and when it counts as over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioner.batch.base import ARRIVAL_S, PROOF_S, SURE_S, EndCause, NoAnswer
from provisioner.batch.job_files import OwnRecord
from provisioner.leases.job_record import (
    JobEnd,
    JobRecord,
    called,
    end_of_missed,
    in_doubt,
    is_surely_absent,
    missed,
    submitted,
    told_never,
    unanswered,
)

NEW = called(JobRecord(tag="wl-1"))
TAKEN = replace(submitted(NEW, "7"), ends_at=900.0)
OVER = NoAnswer("Socket timed out")
RUNS = NoAnswer("the connection was lost", may_run=True)


@pytest.mark.parametrize(
    ("job", "proof_s"),
    [
        (NEW, ARRIVAL_S),
        (unanswered(NEW, RUNS), ARRIVAL_S),
        (unanswered(NEW, OVER), PROOF_S),
        (TAKEN, PROOF_S),
    ],
)
def test_a_job_is_absent_when_it_was_missed_for_as_long_as_its_command_may_run(
    job: JobRecord, proof_s: float
) -> None:
    absent = missed(missed(job, 100.0), 100.0 + proof_s)
    assert not is_surely_absent(absent, 100.0 + proof_s - 1)
    assert is_surely_absent(absent, 100.0 + proof_s)
    assert not is_surely_absent(called(absent), 100.0 + proof_s)
    assert not is_surely_absent(submitted(absent, "7"), 100.0 + proof_s)


@pytest.mark.parametrize(
    ("own", "system", "waited", "after_s", "end"),
    [
        (OwnRecord(), "pbs", False, PROOF_S - 1, None),
        (OwnRecord(), "pbs", False, PROOF_S, (160.0, EndCause.UNKNOWN)),
        (OwnRecord(begun=False), "pbs", True, PROOF_S, (160.0, EndCause.CANCELLED)),
        (OwnRecord(begun=False), "slurm", True, PROOF_S, (160.0, EndCause.UNKNOWN)),
        (OwnRecord(begun=False), "pbs", True, 0.0, None),
        (OwnRecord(told_to_end_at=90.0), "pbs", False, 0.0, (90.0, EndCause.CANCELLED)),
        (OwnRecord(told_to_end_at=880.0), "pbs", False, 800.0, (880.0, EndCause.TIMEOUT)),
    ],
)
def test_how_a_job_ended_that_its_site_does_not_know_any_more(
    own: OwnRecord, system: str, waited: bool, after_s: float, end: tuple[float, EndCause] | None
) -> None:
    absent, now = missed(TAKEN, 100.0), 100.0 + after_s
    told = end_of_missed(absent, now, own, system=system, waited=waited)
    assert told == (None if end is None else JobEnd(at=end[0], cause=end[1]))


def test_what_a_site_will_never_run_is_sure_when_it_says_so_for_a_while() -> None:
    job = told_never(TAKEN, 100.0, True)
    assert not job.is_hopeless
    assert told_never(job, 100.0 + SURE_S, True).is_hopeless
    assert not told_never(told_never(job, 110.0, False), 100.0 + SURE_S, True).is_hopeless
    assert not told_never(in_doubt(job), 100.0 + SURE_S, True).is_hopeless
