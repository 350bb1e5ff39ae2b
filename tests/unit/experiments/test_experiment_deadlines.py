"""Which trials have something to do: what is noted while the due ones are looked at is not lost."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from master.experiments.lifecycle.deadlines import Deadlines
from tests.fakes.pure_experiment import START, PureExperiment


def test_a_deadline_noted_while_another_of_its_trial_is_kept_still_counts() -> None:
    trial = replace(PureExperiment().trial(), allocation=None, not_before=START)
    deadlines = Deadlines([trial])
    now = START + timedelta(seconds=10)
    due = deadlines.due(now)
    assert due == {trial.request_id: START}
    later = START + timedelta(seconds=5)
    deadlines.note(replace(trial, not_before=later))
    deadlines.done(due)
    assert deadlines.due(now) == {trial.request_id: later}


def test_what_was_looked_at_is_not_due_again() -> None:
    trial = replace(PureExperiment().trial(), allocation=None, not_before=START)
    deadlines = Deadlines([trial])
    deadlines.done(deadlines.due(START))
    assert deadlines.due(START) == {}
    assert deadlines.next() is None
