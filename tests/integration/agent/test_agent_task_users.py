"""Whom tasks are on a real machine: names, numbers, rights and files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_scripted_master import ScriptedMaster, spec
from conftest import RunAgent

from agent_bootstrap.agent.identity import own_identity
from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import CheckpointFolder, ContainerOptions, OsUser
from agent_bootstrap.protocol import Bind, ExitFailure

ANN = OsUser(uid=41001, gid=41002, user="ann", group="lab")
ROOT = OsUser()
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run tasks as others"),
    pytest.mark.parametrize("isolation", ["bubblewrap", "namespace"], indirect=True),
]
SHOW = "id; grep -E 'Cap(Eff|Prm|Bnd|Amb)' /proc/self/status; touch f; stat -c 'file %U:%G' f"


@pytest.mark.parametrize(
    ("who", "shown"),
    [
        (None, "uid=65530(task) gid=65530(task)"),
        (ANN, "uid=41001(ann) gid=41002(lab)"),
        (ROOT, "uid=0(root) gid=0(root)"),
    ],
)
async def test_a_task_is_whom_it_should_be_by_name_and_has_no_capability(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, who: OsUser | None, shown: str
) -> None:
    async with run_agent():
        options = ContainerOptions(os_user=who)
        await master.start(spec(cid, "sh", "-c", SHOW, options=options))
        verdict = await master.exit_of(cid)
    said = master.text(cid)
    assert verdict.exit_code == 0, said
    assert said[0].startswith(shown)
    assert {line.split()[1] for line in said if line.startswith("Cap")} == {"0" * 16}
    assert said[-1] == f"file {shown.partition('(')[2].partition(')')[0]}:" + (
        shown.rpartition("(")[2].rstrip(")")
    )


async def test_the_name_stands_in_the_working_directory(
    master: ScriptedMaster, run_agent: RunAgent, cid: str
) -> None:
    work_dir = "/run/determined/$AGENT_USER"
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", 'pwd; echo "$DET_WORKDIR"', work_dir=work_dir))
        await master.exit_of(cid)
    assert master.text(cid) == ["/run/determined/task"] * 2


async def test_a_trial_writes_its_checkpoints_into_the_storage_of_the_cluster(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    """In a folder that only root can enter, and beside those that an earlier release wrote as root."""
    storage = tmp_path / "private" / "checkpoints"
    (storage / "old").mkdir(parents=True)
    (storage / "old" / "state").write_text("of root\n")
    storage.parent.chmod(0o700)
    storage.chmod(0o1777)
    at = "/determined_shared_fs"
    script = (
        f"cd {at}; cat old/state; mkdir new && echo x > new/state; rm -rf old 2>&1 || echo kept"
    )
    options = ContainerOptions(
        host_paths=HostPaths(cluster=(str(storage),), forbidden=(str(storage.parent),)),
        checkpoints=CheckpointFolder(host_path=str(storage), experiment_id=1, trial_id=1),
    )
    bind = Bind(source=str(storage), target=at)
    async with run_agent():
        await master.start(spec(cid, "sh", "-c", script, binds=[bind], options=options))
        await master.exit_of(cid)
    said = master.text(cid)
    assert (said[0], said[-1]) == ("of root", "kept")
    assert (storage / "new").stat().st_uid == 65530
    assert (storage / "old" / "state").exists()


async def test_a_link_that_leads_elsewhere_on_this_machine_is_not_followed(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, tmp_path: Path
) -> None:
    (tmp_path / "data").symlink_to("/dev")
    bind = Bind(source=str(tmp_path / "data"), target="/data")
    async with run_agent():
        await master.start(spec(cid, "ls", "/data", binds=[bind]))
        verdict = await master.exit_of(cid)
    assert verdict.failure is ExitFailure.TASK_ERROR
    assert "(a link to /dev) is in /dev" in verdict.message


async def test_an_agent_that_is_not_root_refuses_in_words(
    master: ScriptedMaster, run_agent: RunAgent, cid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = own_identity().model_copy(update={"uid": 1000, "gid": 1000, "user": "alice"})
    monkeypatch.setattr("agent_bootstrap.agent.runtimes.task_tree.own_identity", lambda: me)
    async with run_agent():
        await master.start(spec(cid, "true", options=ContainerOptions(os_user=ANN)))
        verdict = await master.exit_of(cid)
    assert verdict.failure is ExitFailure.TASK_ERROR
    assert verdict.message == (
        "The agent runs as alice (1000) and cannot run tasks as ann (41001:41002)"
    )
