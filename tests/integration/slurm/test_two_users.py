"""One master for several users of a real Slurm, each of whom submits as themselves: by a real sudo, with commands, or
with a token of theirs for a real slurmrestd.

The master runs as an ordinary user. Its sudoers file lies over the machine's in its own mount namespace alone.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from provisioner.batch.base import NoAnswer
from provisioner.batch.commands import LocalCommands
from provisioner.batch.slurm.rest.transports import rest_system
from provisioner.sections.slurm_api import SlurmApiSection
from tests.gated_trial import MODEL
from tests.integration.slurm.test_dispatch import Gates, config
from tests.jails import open_way_to
from tests.real_cluster import RealCluster, eventually
from tests.slurm import BECOME, Slurm, require_slurm, running_slurm
from tests.slurmrestd import Slurmrestd, require_slurmrestd, running_slurmrestd
from windlass.base.errors import BatchSystemError, PermissionDenied, WindlassError
from windlass.sdk.client import Client
from windlass.sdk.context_dir import pack_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SERVICE = "daemon"
ALICE, BOB, STRANGER = "games", "news", "mail"
"""Users that every Debian has. sudo does not let the master be the last one."""
MINTED = "minted"
PASSWORD = "Correct-Horse-7"
SUDOERS = f"""Defaults env_reset
{SERVICE} ALL=({ALICE},{BOB}) NOPASSWD: /usr/bin/env
"""


@pytest.fixture(scope="module", params=["commands", "rest"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Of root: its jobs run as whoever submits them."""
    require_slurm(accounting=True)
    if os.geteuid() != 0:
        pytest.skip("only root starts a Slurm with jobs of several users")
    if shutil.which("sudo") is None:
        pytest.skip("not installed: sudo (as root: make .make/slurm)")
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    folder = open_way_to(tmp_path_factory.mktemp("users") / "site")
    folder.mkdir()
    with running_slurm(folder, user="root", jwt=True, accounting=True) as slurm:
        for words in (f"add user {ALICE} account=research", "add account teaching"):
            slurm.run("sacctmgr", "-i", "-Q", *words.split())
        slurm.run("sacctmgr", "-i", "-Q", "add", "user", BOB, "account=teaching")
        yield slurm


@pytest.fixture(scope="module")
def rest(site: Slurm) -> Iterator[Slurmrestd]:
    require_slurmrestd()
    with running_slurmrestd(site) as rest:
        yield rest


@pytest.fixture(scope="module")
def cluster(
    site: Slurm, way: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("shared-master") / "cluster"
    open_way_to(folder / "x")
    api = {} if way == "commands" else {"api": by_tokens(request.getfixturevalue("rest"), folder)}
    provider = {
        **api,
        "type": "slurm",
        "partition": "gpu",
        "impersonate": "sudo",
        "job_storage_root": str(folder / "jobs"),
    }
    settings = {
        "resource_pools": [{"pool_name": "batch", "provider": provider}],
        "checkpoint_storage": {"type": "shared_fs", "host_path": str(folder / "checkpoints")},
        "allowed_host_paths": [str(folder)],
    }
    running = RealCluster(folder, settings)
    for name, mode, owner in (
        ("jobs", 0o1777, "root"),
        ("checkpoints", 0o1777, "root"),
        ("master", 0o700, SERVICE),
    ):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
        shutil.chown(folder / name, owner)
    sudoers = folder / "sudoers"
    sudoers.write_text(SUDOERS)
    sudoers.chmod(0o440)
    lay_over = 'mount --bind "$0" /etc/sudoers && exec "$@"'
    uid = str(pwd.getpwnam(SERVICE).pw_uid)
    running.master_via = (
        *("unshare", "-m", "/bin/sh", "-c", lay_over, str(sudoers)),
        *(sys.executable, "-I", "-S", str(BECOME), uid, "/usr/bin/env"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", site.environment["SLURM_CONF"])
        with running:
            yield running


def by_tokens(rest: Slurmrestd, folder: Path) -> dict[str, Any]:
    """Each user mints their own, which expire at once, and is written down."""
    folder.mkdir()
    minted = folder / MINTED
    minted.touch()
    minted.chmod(0o666)
    mint = folder / "mint"
    mint.write_text(f"#!/bin/sh\nid -un >> {minted}\nexec scontrol token lifespan=4\n")
    mint.chmod(0o755)
    return {"url": rest.url, "user": SERVICE, "token_command": [str(mint)]}


@pytest.fixture
def gates(cluster: RealCluster, request: pytest.FixtureRequest) -> Gates:
    return Gates(cluster.folder / f"gates-of-{request.node.name[-40:]}")


class Member:
    """A user of the cluster, linked to one of the site."""

    def __init__(self, cluster: RealCluster, name: str, os_user: str, **link: Any) -> None:
        self._cluster = cluster
        self._name = name
        with cluster.session() as session:
            session.login("admin", cluster.password)
            admin = Client(session)
            user = admin.create_user(name, password=PASSWORD)
            if os_user:
                who = pwd.getpwnam(os_user)
                ids = {"agentUid": who.pw_uid, "agentGid": who.pw_gid}
                names = {"agentUser": os_user, "agentGroup": os_user}
                admin.link_agent_user(int(user["id"]), {**ids, **names, **link})

    def submit(self, gates: Gates, **settings: Any) -> int:
        resources = {"slots_per_trial": 2, "resource_pool": "batch"}
        text = yaml.safe_dump(config(gates, **{"resources": resources, **settings}))
        with self._cluster.session() as session:
            session.login(self._name, PASSWORD)
            created = Client(session).create_experiment(text, pack_directory(MODEL).files)
        return int(created["experiment"]["id"])

    def kill(self, experiment: int) -> None:
        with self._cluster.session() as session:
            session.login(self._name, PASSWORD)
            session.post(f"/api/v1/experiments/{experiment}/kill")


def jobs_of(slurm: Slurm, *states: str) -> dict[str, str]:
    """Name -> user, at the site."""
    wanted = ("-t", ",".join(states) or "all")
    said = slurm.run("squeue", "-h", "-o", "%j %u", *wanted)
    return dict(line.split() for line in said.splitlines())


def log_of(cluster: RealCluster, experiment: int) -> str:
    return "".join(cluster.logs_of(trial["id"]) for trial in cluster.trials(experiment))


def test_two_users_of_one_master_submit_as_themselves(
    cluster: RealCluster, site: Slurm, gates: Gates
) -> None:
    before = jobs_of(site).keys()
    alice, bob = Member(cluster, "alice", ALICE), Member(cluster, "bob", BOB)
    say_who = "sh -c 'id -un; exec python3 train.py'"
    first = alice.submit(gates, entrypoint=say_who)
    second = bob.submit(gates, entrypoint=say_who)
    for experiment, user in ((first, ALICE), (second, BOB)):
        eventually("it works", lambda which=experiment: "run 1, from" in log_of(cluster, which))
        assert user in log_of(cluster, experiment).split()
    running = jobs_of(site, "RUNNING")
    assert sorted(running.values()) == [ALICE, BOB]
    for tag, user in running.items():
        folder = cluster.folder / "jobs" / tag
        token = folder / "nodes" / "0" / "host.json"
        assert (folder.owner(), oct(folder.stat().st_mode & 0o777)) == (user, "0o700")
        assert (token.owner(), oct(token.stat().st_mode & 0o777)) == (user, "0o600")

    third = alice.submit(gates)
    eventually("it pends, as alice", lambda: ALICE in jobs_of(site, "PENDING").values())
    (tag,) = jobs_of(site, "PENDING")
    alice.kill(third)
    eventually("it is cancelled", lambda: tag in jobs_of(site, "CANCELLED"))

    cluster.kill_master()
    cluster.start_master()
    gates.open()
    for experiment in (first, second):
        ended = cluster.wait(experiment)
        assert ended["state"] == "STATE_COMPLETED", log_of(cluster, experiment)
        assert "run 2, from" not in log_of(cluster, experiment)
    eventually("nothing is left", lambda: not list((cluster.folder / "jobs").iterdir()))
    assert len(jobs_of(site).keys() - before) == 3, "something was submitted twice"


def test_an_account_of_somebody_else_is_refused(
    cluster: RealCluster, site: Slurm, way: str, gates: Gates
) -> None:
    """At submission, where accounting is asked; over REST by the site."""
    alice = Member(cluster, "ada", ALICE)
    wrong = {"sbatch_args": ["--account=teaching"]}
    if way == "commands":
        said = f'As {ALICE}: "teaching" is no account that this user may name: research'
        with pytest.raises(WindlassError, match=said):
            alice.submit(gates, slurm=wrong)
    else:
        experiment = alice.submit(gates, slurm=wrong)
        assert cluster.wait(experiment)["state"] == "STATE_ERROR"
        assert "Slurm refuses its job: Invalid account" in log_of(cluster, experiment)
    assert ALICE not in jobs_of(site, "PENDING", "RUNNING").values()


def test_what_ended_while_the_master_was_away_is_told_as_its_user(
    cluster: RealCluster, site: Slurm, gates: Gates
) -> None:
    """The master may not read the directory of the job."""
    carol = Member(cluster, "carol", ALICE)
    experiment = carol.submit(gates, entrypoint="sh plain.sh 0")
    eventually("it runs", lambda: "it waits" in log_of(cluster, experiment))
    (tag,) = jobs_of(site, "RUNNING")
    folder = cluster.folder / "jobs" / tag
    cluster.kill_master()
    gates.open()
    eventually(
        "its end is written down",
        lambda: list(folder.glob("nodes/*/agent/containers/*/verdict.json")),
    )
    cluster.end_hosts(folder)
    eventually("its job is over", lambda: tag not in jobs_of(site, "RUNNING", "COMPLETING"))
    cluster.start_master()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert log_of(cluster, experiment).count("its last word") == 1
    eventually("nothing is left", lambda: not folder.exists())


@pytest.mark.parametrize(
    ("name", "os_user", "link", "said"),
    [
        ("nolink", "", {}, "linked to no user of the cluster.*link-with-agent-user"),
        ("admin2", "root", {}, "linked to root"),
        ("stranger", STRANGER, {}, f"sudo does not let the master run commands as {STRANGER}"),
        ("wrong", ALICE, {"agentUid": 4711}, f"{ALICE} is 5:60 on this cluster"),
    ],
)
def test_who_may_not_be_impersonated_is_refused_at_submission(
    cluster: RealCluster, gates: Gates, name: str, os_user: str, link: dict[str, Any], said: str
) -> None:
    member = Member(cluster, name, os_user, **link)
    with pytest.raises(PermissionDenied, match=said):
        member.submit(gates)


@pytest.mark.parametrize("way", ["rest"], indirect=True)
def test_tokens_are_their_users_own_and_are_minted_again_when_they_expire(
    cluster: RealCluster, site: Slurm, rest: Slurmrestd, gates: Gates, tmp_path: Path
) -> None:
    """With the token of one nothing of the other is seen or touched. The first ones live for four seconds."""
    submitted = {
        user: Member(cluster, name, user).submit(gates)
        for name, user in (("erin", ALICE), ("frank", BOB))
    }
    for experiment in submitted.values():
        eventually("it works", lambda which=experiment: "run 1, from" in log_of(cluster, which))
    tags = {user: tag for tag, user in jobs_of(site, "RUNNING").items()}
    # A new one is made at half of the time of the last: of two more, the second comes after its end.
    for user in (ALICE, BOB):
        minted = mints(cluster, user)
        eventually(
            f"tokens of {user} expire", lambda who=user, n=minted: mints(cluster, who) >= n + 2
        )

    alices = tmp_path / "token"
    alices.touch(mode=0o600)
    alices.write_text(site.run("scontrol", "token", f"username={ALICE}", "lifespan=600"))
    commands = LocalCommands(environ=site.environment)
    as_alice = rest_system(
        SlurmApiSection(url=rest.url, user=ALICE, token_file=str(alices)), commands
    )
    posing = rest_system(SlurmApiSection(url=rest.url, user=BOB, token_file=str(alices)), commands)
    bobs = site.run("squeue", "-h", "-o", "%i", "-n", tags[BOB]).strip()
    assert set(asyncio.run(as_alice.poll(list(tags.values())))) == {tags[ALICE]}
    with pytest.raises(BatchSystemError, match="Access/permission denied"):
        asyncio.run(as_alice.cancel([bobs]))
    for call in (lambda: posing.poll([tags[BOB]]), lambda: posing.cancel([bobs])):
        with pytest.raises(NoAnswer, match=f"the token of user {BOB} .* is not of this user"):
            asyncio.run(call())
    assert tags[BOB] in jobs_of(site, "RUNNING")

    gates.open()
    for experiment in submitted.values():
        assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", log_of(cluster, experiment)
        assert "run 2, from" not in log_of(cluster, experiment)
    assert {user: tag for tag, user in jobs_of(site).items() if tag in tags.values()} == tags
    eventually("nothing is left", lambda: not list((cluster.folder / "jobs").iterdir()))
    assert "SLURM_JWT" not in cluster.log()


def mints(cluster: RealCluster, user: str) -> int:
    return (cluster.folder / MINTED).read_text().split().count(user)
