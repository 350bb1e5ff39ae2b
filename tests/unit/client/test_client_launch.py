"""The launcher as a real process, against a scripted master."""

from __future__ import annotations

import base64
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import WAIT_S, ScriptedMaster, free_port, trial_environment

from windlass.base.errors import InvalidArgument
from windlass.launch.accelerators import Accelerators, find_accelerators
from windlass.launch.context_files import unpack
from windlass.launch.entrypoint import command_of, program_environment

REPOSITORY = Path(__file__).parents[3]


def archive(files: Mapping[str, str], extra: tarfile.TarInfo | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o100755
            tar.addfile(member, io.BytesIO(text.encode()))
        if extra is not None:
            tar.addfile(extra)
    return buffer.getvalue()


class Launch:
    """One launch: change `environ`, `files` and `config`, then `run()`."""

    def __init__(self, master: ScriptedMaster, root: Path) -> None:
        self.master = master
        self.root = root
        self.run_dir = root / "run"
        self.environ = trial_environment(master.url, root) | {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "DET_RETRY_CONFIG": json.dumps({"total": 1, "backoff_factor": 0.05}),
        }
        self.files: dict[str, str] = {}
        master.on(
            "GET",
            r"/api/v1/tasks/1\.a1b2/context_directory",
            lambda _: (200, {"b64Tgz": base64.b64encode(archive(self.files)).decode()}),
        )
        master.on("POST", r"/api/v1/allocations/1\.a1b2\.1/acceleratorData", {})
        met = {"addresses": ["10.0.0.1", "10.0.0.2"], "rank": 1, "slots": [1, 1]}
        path = r"/api/v1/allocations/1\.a1b2\.1/resources/cA-0/rendezvous"
        master.on("GET", path, {"rendezvousInfo": met})

    def configure(self, **changes: Any) -> None:
        config = json.loads(self.environ["DET_EXPERIMENT_CONFIG"]) | changes
        self.environ["DET_EXPERIMENT_CONFIG"] = json.dumps(config)

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *options, "-P", "-m", "windlass.launch"],
            env=self.environ,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str) -> tuple[int, str, str]:
        process = self.start(*options)
        out, err = process.communicate(timeout=WAIT_S)
        return process.returncode, out, err

    def info(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.run_dir / "info" / name).read_text()))


@pytest.fixture
def launch(master: ScriptedMaster, tmp_path: Path) -> Launch:
    return Launch(master, tmp_path)


def test_the_whole_chain(launch: Launch) -> None:
    launch.files = {"main.sh": "#!/bin/sh\necho from-$(basename $PWD) $DET_TRIAL_ID\n", "d/x": "x"}
    launch.configure(entrypoint=["./main.sh"])
    code, out, err = launch.run()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "New trial runner in (container cA-0) on agent agent-0: "
        "trial 5 of experiment 3, run 1, container 1 of 2, 1 slot",
        "from-workdir 5",
    ]
    assert (launch.run_dir / "train" / "model" / "d" / "x").read_text() == "x"
    assert [a.path.rpartition("/")[2] for a in launch.master.asked] == [
        "context_directory",
        "acceleratorData",
        "rendezvous",
    ]
    data = launch.master.asked[1].body["acceleratorData"]
    assert data["acceleratorType"] == "cpu"
    assert (data["nodeName"], data["containerId"]) == ("agent-0", "cA-0")


def test_the_info_files_are_those_of_the_published_package(launch: Launch) -> None:
    launch.environ["DET_LATEST_CHECKPOINT"] = "uuid-1"
    launch.configure(entrypoint="true")
    assert launch.run()[0] == 0
    assert launch.info("cluster.json") == {
        "master_url": launch.master.url,
        "cluster_id": "c1",
        "agent_id": "agent-0",
        "slot_ids": [0],
        "task_id": "1.a1b2",
        "allocation_id": "1.a1b2.1",
        "session_token": "secret",
        "task_type": "TRIAL",
        "master_cert_name": None,
        "master_cert_file": None,
        "latest_checkpoint": "uuid-1",
    }
    trial = launch.info("trial.json")
    assert trial.pop("config")["entrypoint"] == "true"
    assert trial == {
        "trial_id": 5,
        "experiment_id": 3,
        "trial_seed": 42,
        "hparams": {"lr": 0.1},
        "steps_completed": 0,
        "trial_run_id": 1,
        "debug": False,
        "inter_node_network_interface": None,
    }
    assert launch.info("rendezvous.json") == {
        "container_addrs": ["10.0.0.1", "10.0.0.2"],
        "container_rank": 1,
        "container_slot_counts": [1, 1],
    }
    assert launch.info("resources.json") == {"gpu_uuids": []}
    for path in (launch.run_dir / "info").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_core_api_finds_itself_in_the_launched_program(launch: Launch) -> None:
    program = (
        "from windlass import core, get_cluster_info\n"
        "info = get_cluster_info()\n"
        "print(info.trial.hparams, info.container_rank, info.latest_checkpoint)\n"
    )
    launch.files = {"main.py": program}
    launch.configure(entrypoint=[sys.executable, "main.py"])
    code, out, err = launch.run()
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "{'lr': 0.1} 1 None"


def test_hooks_are_sourced_cluster_first_and_before_the_rendezvous(launch: Launch) -> None:
    launch.run_dir.mkdir()
    (launch.run_dir / "dynamic-tcd-startup-hook.sh").write_text("export A=cluster; set -- x y\n")
    launch.files = {"startup-hook.sh": 'export B="$A then user"\n'}
    launch.configure(entrypoint='echo "$B"')
    code, out, err = launch.run()
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "cluster then user"
    assert len(launch.master.calls("GET", ".*/context_directory")) == 1


def test_the_prologue_comes_first_and_variables_for_another_python_do_not_reach_ours(
    launch: Launch, tmp_path: Path
) -> None:
    launch.run_dir.mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "json.py").write_text("raise SystemExit('of another version')")
    prologue = f"export A=prologue PYTHONPATH={tmp_path}/other PYTHONHOME=/nowhere\n"
    (launch.run_dir / "prologue.sh").write_text(prologue)
    launch.files = {"startup-hook.sh": 'export B="$A then user"\n'}
    launch.configure(entrypoint='echo "$B $PYTHONPATH"')
    code, out, err = launch.run("-E")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"prologue then user {tmp_path}/other"


def test_a_python_that_the_prologue_did_not_bring_is_one_sentence(launch: Launch) -> None:
    launch.environ["DET_PYTHON_EXECUTABLE"] = "python9.9"
    code, out, err = launch.run()
    assert (code, out) == (1, "")
    assert err == (
        "windlass launch: environment.python: python9.9 is not on PATH here, after the prologue and "
        "the startup hooks\n"
    )


@pytest.mark.parametrize(("hook", "code"), [("false\necho no", 1), ("exit 7", 7)])
def test_a_failing_hook_ends_the_task_before_the_rendezvous(
    hook: str, code: int, launch: Launch
) -> None:
    launch.files = {"startup-hook.sh": hook}
    returned, out, err = launch.run()
    assert (returned, out) == (code, "")
    assert "startup-hook.sh ended with exit code" in err
    assert launch.master.calls("GET", ".*/rendezvous") == []


@pytest.mark.parametrize(
    ("entrypoint", "code"), [("exit 3", 3), (["sh", "-c", "kill -KILL $$"], 137)]
)
def test_the_exit_code_passes_through(
    entrypoint: str | list[str], code: int, launch: Launch
) -> None:
    launch.configure(entrypoint=entrypoint)
    assert launch.run()[0] == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_program(number: signal.Signals, launch: Launch) -> None:
    program = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(40))\n"
        "print('ready', flush=True)\n"
        "signal.pause()\n"
    )
    launch.configure(entrypoint=[sys.executable, "-c", program])
    process = launch.start()
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            process.send_signal(number)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environ", "config", "message"),
    [
        ({"DET_TASK_TYPE": "MAGIC"}, {}, "launches no tasks of type MAGIC"),
        ({"DET_HPARAMS": "{"}, {}, "malformed"),
        ({"DET_RESOURCES_TYPE": "magic"}, {}, "'magic'"),
        ({"DET_RESOURCES_ID": ""}, {}, "DET_RESOURCES_ID is not set"),
        ({}, {"entrypoint": ""}, "no entrypoint"),
        ({}, {"entrypoint": ["no-such-program"]}, "'no-such-program' is not on PATH"),
        (
            {},
            {"entrypoint": "model_def:MyTrial"},
            "the entrypoint model_def:MyTrial is a Trial class, which needs the package `determined`",
        ),
        ({}, {"checkpoint_storage": {"type": "s3"}}, "checkpoint storage cannot be used"),
        (
            {},
            {"checkpoint_storage": {"type": "directory", "container_path": "/proc/x"}},
            "checkpoint storage cannot be used",
        ),
        ({"DET_MASTER": f"http://127.0.0.1:{free_port()}"}, {}, "does not answer"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(
    environ: dict[str, str], config: dict[str, Any], message: str, launch: Launch
) -> None:
    launch.configure(**config)
    launch.environ |= environ
    code, _, err = launch.run()
    assert code == 1
    lines = [line for line in err.splitlines() if line.startswith("windlass launch: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert "Traceback" not in err
    assert "secret" not in err


def test_outside_a_task_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "windlass.launch"],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("windlass launch: not inside a task: DET_MASTER")


def _link() -> tarfile.TarInfo:
    member = tarfile.TarInfo("link")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    return member


@pytest.mark.parametrize(
    "data",
    [
        archive({"ok": "1", "../evil": "x"}),
        archive({"ok": "1", "/tmp/evil": "x"}),
        archive({"ok": "1", "a/../../evil": "x"}),
        archive({"ok": "1"}, _link()),
    ],
)
def test_an_archive_that_leads_out_is_refused_whole(data: bytes, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(InvalidArgument, match="files of the task"):
        unpack(data, target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    [
        (["a", 1], ["a", "1"]),
        ("a b; c", ["sh", "-c", "a b; c"]),
        (
            "model_def:Trial",
            [
                "python3",
                "-m",
                "determined.launch.torch_distributed",
                "--",
                "--trial",
                "model_def:Trial",
            ],
        ),
    ],
)
def test_the_forms_of_an_entrypoint(entrypoint: Any, command: list[str]) -> None:
    assert command_of(entrypoint) == command


@pytest.mark.parametrize(
    ("slots", "visible", "expected"),
    [
        ([], "GPU-1", Accelerators("cpu")),
        ([0], "", Accelerators("cpu")),
        ([0, 1], "GPU-1, GPU-2", Accelerators("cuda", ("GPU-1", "GPU-2"))),
    ],
)
def test_the_agents_choice_of_gpus_is_believed(
    slots: list[int], visible: str, expected: Accelerators
) -> None:
    assert find_accelerators(slots, {"CUDA_VISIBLE_DEVICES": visible}) == expected


@pytest.mark.parametrize(
    ("entrypoint", "kept"),
    [
        ("python3 -m determined.launch.deepspeed python3 train.py", False),
        (["python3", "-m", "determined.launch.deepspeed", "train.py"], False),
        ("python3 -m determined.launch.torch_distributed train.py", True),
    ],
)
def test_deepspeeds_launcher_is_not_given_json_that_it_would_break(
    entrypoint: str | list[str], kept: bool
) -> None:
    own = {"A": "b", "SHELL": "/bin/s"}
    given = program_environment(command_of(entrypoint), {"DET_RETRY_CONFIG": "{}", **own})
    assert given == ({"DET_RETRY_CONFIG": "{}"} if kept else {}) | own
