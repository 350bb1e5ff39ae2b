"""Batch jobs go on when their master is stopped and a later release of it starts: on a real Slurm, of both kinds.

`batch_jobs.json` has records as fd822e2d wrote them, of a dispatched job and of a pilot, each while it waits and while
it runs. Restarts on one release, also after kills: slurm/test_dispatch.py, pilots/test_pilots_on_a_site.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from master.store.repositories.leases import lease_document, lease_from_document
from provisioner.providers.pilots.book import Pilot
from tests.gated_trial import MODEL, all_logs, gated_trial
from tests.integration.upgrade.golden import edit, keeps, stored
from tests.pilot_sites import PilotSite, running_site
from tests.real_cluster import RealCluster, eventually

RECORDS: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("batch_jobs.json").read_text()
)
"""By kind, then `waits` or `runs`."""
_PILOT = TypeAdapter(Pilot)
READERS: Mapping[str, Callable[[Any], Any]] = {
    "dispatched": lambda document: lease_document(lease_from_document(document)),
    "pilot": lambda document: _PILOT.dump_python(_PILOT.validate_python(document), mode="json"),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("state", ["waits", "runs"])
def test_nothing_of_a_record_is_lost(kind: str, state: str) -> None:
    record = RECORDS[kind][state]
    assert keeps(READERS[kind](record), record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A trial with a job of its own."""

    kind: str
    state: str
    experiment: int
    gate: Path
    job: str


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilotSite]:
    with running_site("slurm", tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def cluster(site: PilotSite, tmp_path: Path) -> Iterator[RealCluster]:
    pilots = {"mode": "pilot", "walltimes": ["1h"]}
    pools = [
        {"pool_name": "dispatched", "provider": site.provider},
        {
            "pool_name": "pilot",
            "max_instances": 2,
            "max_idle_agent_period": "1s",
            "provider": {**site.provider, **pilots},
        },
    ]
    settings = {"resource_pools": pools, "allowed_host_paths": [str(tmp_path)]}
    with RealCluster(tmp_path / "c", settings) as running:
        yield running


def records(folder: Path) -> dict[str, Any]:
    """By job, as they are stored."""
    pilots = [json.loads(file.read_bytes()) for file in folder.glob("pilots/*.json")]
    return {one["tag"]: one for one in (*stored(folder, "batchlease", "document"), *pilots)}


def write_as_before(folder: Path, works: Collection[Work]) -> None:
    """Without what fd822e2d did not know."""
    states = {work.job: work.state for work in works}

    def changed(kind: str, record: Any) -> Any:
        return _limited(record, RECORDS[kind][states[record["tag"]]])

    edit(folder, "batchlease", "document", partial(changed, "dispatched"))
    for file in folder.glob("pilots/*.json"):
        file.write_text(json.dumps(changed("pilot", json.loads(file.read_bytes()))))


def _limited(new: Any, old: Any) -> Any:
    """Its keys that the old one has: all of them."""
    if not (isinstance(new, dict) and isinstance(old, dict)):
        return new
    return {key: _limited(new[key], old[key]) for key in old}


@pytest.mark.slow
def test_jobs_that_wait_and_jobs_that_run_go_on(
    cluster: RealCluster, site: PilotSite, tmp_path: Path
) -> None:
    """Each is the one that it was: nothing is submitted twice, nothing runs twice, nothing is lost."""

    def submitted(kind: str, state: str) -> Work:
        gate = tmp_path / f"{kind}-{state}"
        gate.mkdir()
        before = site.all_jobs()
        config = gated_trial(gate, slots=2, pool=kind, entrypoint="sh plain.sh")
        experiment = cluster.submit(config, MODEL)
        (job,) = eventually("it is at the site", lambda: set(site.all_jobs()) - set(before))
        return Work(kind=kind, state=state, experiment=experiment, gate=gate, job=job)

    def starts(work: Work) -> None:
        eventually("it runs", lambda: "it waits" in all_logs(cluster, work.experiment))

    def ends(work: Work) -> None:
        starts(work)
        (work.gate / "open").touch()
        assert cluster.wait(work.experiment)["state"] == "STATE_COMPLETED"
        log = all_logs(cluster, work.experiment)
        assert (log.count("it waits"), log.count("its last word")) == (1, 1), log

    running = [submitted(kind, "runs") for kind in RECORDS]
    for work in running:
        starts(work)
    waiting = [submitted(kind, "waits") for kind in RECORDS]
    works = [*running, *waiting]
    jobs = sorted(work.job for work in works)

    def are_written_down() -> bool:
        found = records(cluster.data_dir)
        return sorted(found) == jobs and all(
            found[work.job]["job_id"] and (work in waiting or found[work.job]["ends_at"])
            for work in works
        )

    eventually("the master knows how far they are", are_written_down)
    cluster.stop_master()
    write_as_before(cluster.data_dir, works)
    cluster.start_master()
    agents = sorted(f"{work.job}-0" for work in running)
    eventually("their agents are back", lambda: sorted(cluster.agents()) == agents)
    assert sorted(site.jobs()) == jobs
    assert sorted(site.jobs("waiting")) == sorted(work.job for work in waiting)
    # The end of each frees a node for the next. The pilot that ran is the last: it could take the other one's work.
    dispatched, pilot = running
    for work in (dispatched, *waiting, pilot):
        ends(work)
    eventually("all jobs are over", lambda: not site.jobs())
    assert sorted(site.all_jobs()) == jobs
