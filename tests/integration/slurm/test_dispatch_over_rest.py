"""Trials of a master that asks Slurm by slurmrestd, and tokens that are not taken."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import shutil
import time
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest

from provisioner.batch.base import EndCause, JobSpec, NoAnswer
from provisioner.batch.commands import LocalCommands
from provisioner.batch.slurm.rest.client import RestClient
from provisioner.batch.slurm.rest.system import RestSystem
from provisioner.batch.slurm.rest.transports import USER, rest_system, user_system
from provisioner.sections.slurm_api import SlurmApiSection
from tests.contract.batch.sites import is_over, until
from tests.gated_trial import MODEL, all_logs, gated_trial, slurm_master
from tests.real_cluster import RealCluster, eventually
from tests.slurm import require_slurm, running_slurm
from tests.slurmrestd import Slurmrestd, require_slurmrestd, running_slurmrestd

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rest() -> Iterator[Slurmrestd]:
    """Where every user may pass."""
    require_slurm()
    require_slurmrestd()
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running_slurm(folder, jwt=True) as slurm, running_slurmrestd(slurm) as rest:
            yield rest


def signed(key: bytes, ends: float) -> str:
    """A token as `scontrol token` makes it."""

    def part(value: object) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    claims = {"exp": int(ends), "iat": int(time.time()) - 60, "sun": getuser()}
    text = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(claims)
    seal = base64.urlsafe_b64encode(hmac.digest(key, text, hashlib.sha256)).rstrip(b"=")
    return (text + b"." + seal).decode()


def test_no_job_ends_by_a_token_that_is_not_taken(rest: Slurmrestd, tmp_path: Path) -> None:
    """Expired, or of another cluster: a sentence with the way out; with a good one again the job is where it was."""
    token = rest.token_file(tmp_path / "token")
    good = token.read_text()
    key = (rest.slurm.folder / "etc" / "jwt.key").read_bytes()
    api = SlurmApiSection(url=rest.url, user=getuser(), token_file=str(token))
    commands = LocalCommands(environ=rest.slurm.environment)
    system = rest_system(api, commands)
    script = "#!/bin/sh\nsleep 600\n"
    job = JobSpec(
        name="wl-token", queue="gpu", nodes=1, gpus_per_node=0, directory=tmp_path, script=script
    )
    id_ = asyncio.run(system.submit(job))
    bad = {
        "expired at": signed(key, time.time() - 1),
        r"not of this user and cluster.*scontrol token": signed(b"another", time.time() + 600),
    }
    for said, text in bad.items():
        token.write_text(text)
        _require_no_answer(system, id_, said)
        # Whether or not its end is read on our side.
        client = RestClient(
            rest.url, httpx2.AsyncHTTPTransport, base=rest.url, tokens=Blind(text), user=getuser()
        )
        _require_no_answer(RestSystem(client, commands), id_, r"token of user .* has expired, or")
    token.write_text(good)
    assert asyncio.run(system.poll(["wl-token"]))["wl-token"].job_id == id_
    asyncio.run(system.cancel([id_]))


def _require_no_answer(system: RestSystem, id_: str, said: str) -> None:
    for call in (lambda: system.poll(["wl-token"]), lambda: system.look_up(id_)):
        with pytest.raises(NoAnswer, match=said):
            asyncio.run(call())


class Blind:
    """Implements `Tokens`: does not look at when its token ends."""

    way_out = "another"

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text

    def refused(self) -> None:
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mints tokens for others")
def test_a_job_is_of_the_user_whose_token_submits_it(rest: Slurmrestd) -> None:
    """And who has another token sees no job of theirs, whatever its name."""
    commands = LocalCommands(environ=rest.slurm.environment)
    mint = ("scontrol", "token", f"username={USER}", "lifespan=60")
    api = SlurmApiSection(url=rest.url, user="root", token_command=mint)
    theirs = user_system(api, "nobody", commands, as_user=commands)
    ours = rest_system(api, commands)
    with TemporaryDirectory(dir="/tmp") as folder:
        shutil.chown(folder, "nobody")
        script = "#!/bin/sh\nid -un\nexit 3\n"
        job = JobSpec(
            name="wl-of-nobody",
            queue="gpu",
            nodes=1,
            gpus_per_node=0,
            directory=Path(folder),
            script=script,
        )

        async def main() -> None:
            id_ = await theirs.submit(job)
            ended = await until(theirs, job.name, is_over)
            assert ended is not None
            told = await theirs.look_up(id_)
            assert told is not None
            assert (told.cause, told.exit_code) == (EndCause.FAILED, 3)
            assert await ours.poll([job.name]) == {}

        asyncio.run(main())
        assert (Path(folder) / "batch.log").read_text() == "nobody\n"


def test_a_gang_from_request_to_end_with_a_token_that_is_minted_again(
    rest: Slurmrestd, tmp_path: Path
) -> None:
    jobs, gates = tmp_path / "jobs", tmp_path / "gates"
    gates.mkdir()
    config = rest.slurm.environment["SLURM_CONF"]
    mint = ["env", f"SLURM_CONF={config}", "scontrol", "token", "lifespan=20"]
    api = {"url": rest.url, "user": getuser(), "token_command": mint}
    with RealCluster(tmp_path / "cluster", slurm_master(jobs, gates, api=api)) as cluster:
        experiment = cluster.submit(gated_trial(gates), MODEL)
        eventually("it runs", lambda: "run 1, from" in all_logs(cluster, experiment))
        (gates / "open").touch()
        state = cluster.wait(experiment)["state"]
        assert state == "STATE_COMPLETED", all_logs(cluster, experiment)
        assert "rank 1 of 2" in all_logs(cluster, experiment)
        eventually("its jobs are over", lambda: not rest.slurm.jobs())
        refused = gated_trial(gates)
        refused["slurm"] = {"sbatch_args": ["--mail-user=me"]}
        with pytest.raises(Exception, match="slurmrestd has no field"):
            cluster.submit(refused, MODEL)
