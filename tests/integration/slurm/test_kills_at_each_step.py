"""Master, agent and job script are killed on a real Slurm at each step of a job, while others run, pend and are over.

Nothing is lost, nothing is submitted twice, and no process, job, agent or directory is left. A step is reached exactly:
commands of Slurm and the Python of jobs stop where the test says, and go on when it says so.

Elsewhere, also for real: the master while jobs run and pend, and with tasks and jobs that ended meanwhile
(test_dispatch.py, pilots/test_pilots_on_a_site.py, and for jobs of their users test_two_users.py); agent, host and srun
of jobs that run (the first two). At every commit and call, in memory: tests/unit/rm_backends/test_rm_dispatch_kills.py,
tests/unit/provisioner/pilots/test_pilots_kill_nine.py.
"""

from __future__ import annotations

import fcntl
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial
from tests.real_cluster import RealCluster, eventually
from tests.slurm import PATH, Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KILLED = "STATE_CANCELED"


class Hold:
    """Where programs stop until a test lets them go on."""

    def __init__(self, folder: Path, name: str) -> None:
        self._lock = folder / f"{name}.lock"
        self._reached = folder / f"{name}.reached"
        self._lock.touch()
        self.shell = f"touch {self._reached}; flock --shared {self._lock} true"

    @contextmanager
    def held(self) -> Iterator[None]:
        self._reached.unlink(missing_ok=True)
        with self._lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def until_reached(self) -> None:
        eventually(f"{self._reached.stem} is reached", self._reached.exists)


class Holds:
    """Of one cluster: around the commands of its master, and before the Python of its jobs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "commands"
        self.path.mkdir(parents=True)
        self._queue_looks = folder / "looks"
        self.submits = Hold(folder, "submission")
        self.has_submitted = Hold(folder, "taken")
        self.cancels = Hold(folder, "cancellation")
        self.starts = Hold(folder, "start")
        sbatch = f'printf "%s\\n" "$script" | {_real("sbatch")} "$@"'
        taken = f'said=$({sbatch}); code=$?; {self.has_submitted.shell}; echo "$said"; exit $code'
        self._write("sbatch", f"script=$(cat); {self.submits.shell}; {taken}")
        self._write("scancel", f'{self.cancels.shell}; exec {_real("scancel")} "$@"')
        looked = f"echo >> {self._queue_looks}; exit $code"
        self._write("squeue", f'{_real("squeue")} "$@"; code=$?; {looked}')
        waits = f'case "$*" in *agent_bootstrap.host*) {self.starts.shell};; esac'
        self.python = self._write("python", f'{waits}; exec {sys.executable} "$@"')

    def until_the_queue_is_seen(self) -> None:
        """By calls that begin now: the second one that ends from here on did so."""
        before = self._looks()
        eventually("the site is asked again", lambda: self._looks() >= before + 2)

    def _looks(self) -> int:
        return self._queue_looks.stat().st_size if self._queue_looks.exists() else 0

    def _write(self, name: str, script: str) -> Path:
        file = self.path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file


def _real(command: str) -> str:
    found = shutil.which(command, path=PATH)
    assert found is not None
    return found


@dataclass(frozen=True, kw_only=True)
class Bystander:
    experiment: int
    name: str
    """Of its job."""
    state: str
    """Of that at the site."""


class Site:
    """One master with its Slurm, and what else is there."""

    def __init__(self, cluster: RealCluster, slurm: Slurm, holds: Holds) -> None:
        self.cluster = cluster
        self.holds = holds
        self._slurm = slurm
        self._gates = 0
        self.bystanders: tuple[Bystander, ...] = ()

    def gate(self) -> Path:
        self._gates += 1
        folder = self.cluster.folder / f"gates-{self._gates}"
        folder.mkdir()
        return folder

    def jobs(self) -> dict[str, str]:
        """Name -> state, of all that there were."""
        said = self._slurm.run("squeue", "-h", "-t", "all", "-o", "%j %T")
        names = [line.split() for line in said.splitlines()]
        assert len(names) == len({name for name, _ in names}), f"submitted twice: {said}"
        return dict(names)

    def left(self) -> list[str]:
        """Jobs that are not over, directories, agents and processes; but of bystanders, and directories of pilots.

        Those are kept for ten minutes.
        """
        theirs = [one.name for one in self.bystanders]
        folder = self.cluster.data_dir / "jobs"
        found = [
            *self._slurm.jobs(),
            *(path.name for path in folder.glob("wl-*")),
            *self.cluster.agents(),
        ]
        known = {process for name in theirs for process in self.processes(name)}
        processes = set(self.cluster.processes(folder)) - known
        left = [one for one in found if not one.startswith(tuple(theirs))]
        return [*left, *map(str, processes)]

    def processes(self, tag: str, word: str = "") -> list[psutil.Process]:
        return self.cluster.processes(self.cluster.data_dir / "jobs" / tag, word=word)


@pytest.fixture(scope="module")
def shared(site: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("kills")
    holds = Holds(folder / "holds")
    section = {"type": "slurm", "path": str(holds.path), "python": str(holds.python)}
    pools = [
        {"pool_name": "batch", "provider": {**section, "partition": "gpu"}},
        {"pool_name": "closed", "provider": {**section, "partition": "closed"}},
        {
            "pool_name": "pilots",
            "max_instances": 1,
            "max_idle_agent_period": "1s",
            "provider": {**section, "partition": "gpu", "mode": "pilot", "walltimes": ["1h"]},
        },
    ]
    settings = {"resource_pools": pools, "allowed_host_paths": [str(folder)]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with RealCluster(folder / "cluster", settings) as cluster:
            everything = Site(cluster, site, holds)
            with bystanders(everything):
                yield everything
            eventually("nothing is left", lambda: not everything.left())
    site.settle()


@contextmanager
def bystanders(site: Site) -> Iterator[None]:
    """One job that runs, one that pends and one that is over, all the time."""
    cluster, gate = site.cluster, site.gate()
    over = submitted(site, gate, entrypoint="true")
    assert cluster.wait(over)["state"] == "STATE_COMPLETED"
    eventually("its job is over", lambda: not site.left())
    before = site.jobs()
    runs = submitted(site, gate)
    eventually("one runs", lambda: "it waits" in all_logs(cluster, runs))
    (running,) = site.jobs().keys() - before.keys()
    pends = submitted(site, gate, pool="closed")
    eventually("one pends", lambda: "PENDING" in site.jobs().values())
    (pending,) = site.jobs().keys() - {*before, running}
    site.bystanders = (
        Bystander(experiment=runs, name=running, state="RUNNING"),
        Bystander(experiment=pends, name=pending, state="PENDING"),
    )
    yield
    site.bystanders = ()
    (gate / "open").touch()
    cluster.client.session.post(f"/api/v1/experiments/{pends}/kill")
    assert cluster.wait(pends)["state"] == KILLED
    assert cluster.wait(runs)["state"] == "STATE_COMPLETED"
    assert all_logs(cluster, runs).count("it waits") == 1, "it ran twice"
    assert site.jobs().keys() >= {running, pending}


def submitted(site: Site, gate: Path, *, pool: str = "batch", **settings: str) -> int:
    """A task that needs no master to end."""
    config = gated_trial(gate, slots=1, pool=pool, **{"entrypoint": "sh plain.sh", **settings})
    return site.cluster.submit(config, MODEL)


@pytest.fixture
def site_of_kills(shared: Site) -> Iterator[Site]:
    """Nothing is left, and bystanders are as they were: each with its one job."""
    yield shared
    shared.cluster.recover(but=[one.experiment for one in shared.bystanders])
    eventually("nothing of it is left", lambda: not shared.left())
    for one in shared.bystanders:
        assert shared.jobs()[one.name] == one.state
        assert shared.cluster.experiment(one.experiment)["state"] in (
            "STATE_RUNNING",
            "STATE_QUEUED",
        )


class Work:
    """One experiment of one trial with one slot, in a pool."""

    def __init__(self, site: Site, pool: str) -> None:
        self.site = site
        self._before = site.jobs().keys()
        self._gate = site.gate()
        self.experiment = submitted(site, self._gate, pool=pool)

    @property
    def jobs(self) -> list[str]:
        """Names of all that were submitted since."""
        return sorted(self.site.jobs().keys() - self._before)

    def until_it_runs(self) -> None:
        eventually("it runs", lambda: "it waits" in all_logs(self.site.cluster, self.experiment))

    def until_it_ends(self) -> str:
        return str(self.site.cluster.wait(self.experiment)["state"])

    def go_on(self) -> None:
        (self._gate / "open").touch()

    def until_its_end_is_written(self) -> None:
        """By its supervisor, whoever else is there."""
        (tag,) = self.jobs
        nodes = self.site.cluster.data_dir / "jobs" / tag / "nodes"
        eventually("it ends", lambda: list(nodes.glob("*/agent/containers/*/verdict.json")))

    def kill(self) -> None:
        """As its user."""
        session = self.site.cluster.client.session
        session.post(f"/api/v1/experiments/{self.experiment}/kill")

    def kill_on_its_node(self, word: str) -> None:
        """The first process of its job with that word in its command line."""
        (tag,) = self.jobs
        (process, *_) = eventually(f"{word} is there", lambda: self.site.processes(tag, word))
        process.kill()
        psutil.wait_procs([process], timeout=10)


# A story brings work to its step, kills, and lets everything go on.
Story = Callable[[Site, str], Work]


def started_unseen(site: Site, pool: str) -> Work:
    """Its job starts while its master is dead."""
    with site.holds.starts.held():
        work = Work(site, pool)
        site.holds.starts.until_reached()
        site.cluster.kill_master()
    return work


def ended_unseen(site: Site, pool: str) -> Work:
    """Its task ends while its master is dead; its job runs on."""
    work = Work(site, pool)
    work.until_it_runs()
    site.cluster.kill_master()
    work.go_on()
    work.until_its_end_is_written()
    return work


def killed_before_the_site_is_asked_and_the_call_outlives_the_master(site: Site, pool: str) -> Work:
    """The new master looks for the job and does not find it; then it comes."""
    with site.holds.submits.held():
        work = Work(site, pool)
        site.holds.submits.until_reached()
        site.cluster.kill_master()
        site.cluster.start_master()
        site.holds.until_the_queue_is_seen()
        assert not work.jobs
    return work


def killed_before_the_answer_of_the_site(site: Site, pool: str) -> Work:
    with site.holds.has_submitted.held():
        work = Work(site, pool)
        site.holds.has_submitted.until_reached()
        site.cluster.kill_master()
        assert len(work.jobs) == 1
    site.cluster.start_master()
    return work


def killed_while_the_job_starts(site: Site, pool: str) -> Work:
    """No agent of it has joined; the first one joins the new master."""
    work = started_unseen(site, pool)
    site.cluster.start_master()
    return work


def killed_when_the_task_has_ended(site: Site, pool: str) -> Work:
    """Its agent is there, and tells the new master."""
    work = ended_unseen(site, pool)
    site.cluster.start_master()
    return work


def killed_when_the_user_has_killed_what_runs(site: Site, pool: str) -> Work:
    work = Work(site, pool)
    work.until_it_runs()
    work.kill()
    site.cluster.kill_master()
    site.cluster.start_master()
    return work


def killed_before_a_job_is_cancelled(site: Site, pool: str) -> Work:
    """It waits at the site until then: nothing starts in its partition."""
    with site.holds.cancels.held():
        work = Work(site, pool)
        eventually("it is there", lambda: work.jobs)
        work.kill()
        site.holds.cancels.until_reached()
        site.cluster.kill_master()
    site.cluster.start_master()
    return work


def killed_before_an_idle_pilot_is_cancelled(site: Site, pool: str) -> Work:
    with site.holds.cancels.held():
        work = Work(site, pool)
        work.go_on()
        assert work.until_it_ends() == "STATE_COMPLETED"
        site.holds.cancels.until_reached()
        site.cluster.kill_master()
    site.cluster.start_master()
    return work


def agent_killed_before_it_joins(site: Site, pool: str) -> Work:
    """Its host starts another."""
    work = started_unseen(site, pool)
    work.kill_on_its_node("agent_bootstrap.agent")
    site.cluster.start_master()
    return work


def agent_killed_when_the_task_has_ended(site: Site, pool: str) -> Work:
    """Nobody was told of the end but the directory: the next agent tells it."""
    work = ended_unseen(site, pool)
    work.kill_on_its_node("agent_bootstrap.agent")
    site.cluster.start_master()
    return work


def script_killed_while_the_job_starts(site: Site, pool: str) -> Work:
    """The job is over before its agents joined: another one is submitted."""
    with site.holds.starts.held():
        work = Work(site, pool)
        site.holds.starts.until_reached()
        work.kill_on_its_node("agent_bootstrap.host")
    return work


def script_killed_when_the_task_has_ended(site: Site, pool: str) -> Work:
    """The job is over, too: what its task did is read from its directory, and it is not run again."""
    work = ended_unseen(site, pool)
    work.kill_on_its_node("agent_bootstrap.host")
    (tag,) = work.jobs
    eventually("its job is over", lambda: site.jobs()[tag] not in ("RUNNING", "COMPLETING"))
    site.cluster.start_master()
    return work


@dataclass(frozen=True, kw_only=True)
class Row:
    story: Story
    pool: str = "batch"
    jobs: int = 1
    """That the site has seen."""
    runs: int = 1
    """Of the task."""
    state: str = "STATE_COMPLETED"


ROWS = [
    Row(story=killed_before_the_site_is_asked_and_the_call_outlives_the_master),
    Row(story=killed_before_the_answer_of_the_site),
    Row(story=killed_while_the_job_starts),
    Row(story=killed_when_the_task_has_ended),
    Row(story=killed_when_the_user_has_killed_what_runs, state=KILLED),
    Row(story=killed_before_a_job_is_cancelled, runs=0, pool="closed", state=KILLED),
    Row(story=agent_killed_before_it_joins),
    Row(story=agent_killed_when_the_task_has_ended),
    Row(story=script_killed_while_the_job_starts, jobs=2),
    Row(story=script_killed_when_the_task_has_ended),
    # A pilot has a record of its own instead of a lease, and is cancelled where another job is dismissed.
    Row(
        story=killed_before_the_site_is_asked_and_the_call_outlives_the_master,
        pool="pilots",
    ),
    Row(story=killed_before_the_answer_of_the_site, pool="pilots"),
    Row(story=killed_while_the_job_starts, pool="pilots"),
    Row(story=killed_before_an_idle_pilot_is_cancelled, pool="pilots"),
    Row(story=script_killed_when_the_task_has_ended, pool="pilots"),
]


@pytest.mark.parametrize("row", [pytest.param(r, id=f"{r.pool}-{r.story.__name__}") for r in ROWS])
def test_a_kill_at_any_step_loses_and_doubles_nothing(site_of_kills: Site, row: Row) -> None:
    work = row.story(site_of_kills, row.pool)
    work.go_on()
    state = work.until_it_ends()
    log = all_logs(site_of_kills.cluster, work.experiment)
    assert state == row.state, log
    assert log.count("it waits") == row.runs, log
    assert log.count("its last word") == (row.state == "STATE_COMPLETED"), log
    eventually("its jobs are over", lambda: not site_of_kills.left())
    assert len(work.jobs) == row.jobs
