"""`windlass doctor`: every check in its good and its bad case."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, free_port
from typer.testing import CliRunner, Result

from agent_bootstrap.agent import checks as agent_checks
from agent_bootstrap.agent.gpus.gpu import FoundGpus, Gpu
from agent_bootstrap.agent.runtimes.isolation import Isolation
from agent_bootstrap.protocol import IsolationKind, SlotKind
from master.checks.doctor import check_folder
from windlass import __version__
from windlass.base.checks import CheckStatus
from windlass.cli import doctor
from windlass.cli.doctor import check_extra, check_python, check_scripts, check_shadowed
from windlass.cli.main import app
from windlass.sdk.credentials import TokenCache


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    info = {"version": "0.38.1", "windlass_version": __version__, "cluster_id": "c"}
    master.on("GET", "/info", info)
    master.on("GET", "/api/v1/me", {"user": {"username": "ann"}})
    return master


def det(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["-m", url, "doctor", *arguments])


def by_name(result: Result) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(result.stdout)}


@pytest.mark.slow
def test_a_good_installation_passes(cluster: ScriptedMaster) -> None:
    TokenCache().remember(cluster.url, "ann", "t")
    result = det(cluster.url, "--json")
    assert result.exit_code == 0, result.stdout
    checks = by_name(result)
    assert checks["master"]["found"] == f"windlass {__version__} at {cluster.url}"
    assert checks["login"]["found"] == "logged in as ann"
    assert checks["packages"]["status"] == "ok"
    table = det(cluster.url).stdout
    assert "Python" in table
    assert "extra master" in table


def test_a_failed_check_is_exit_code_1_with_the_way_out() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = det(url)
    assert result.exit_code == 1
    assert "Cannot connect to master" in result.stdout
    assert "master: start one (det deploy local cluster-up)" in result.stdout
    assert by_name(det(url, "--json"))["master"]["status"] == "failed"


def test_a_master_that_refuses_need_not_be_started(cluster: ScriptedMaster) -> None:
    problem = {
        "error": {"code": 3, "reason": "invalid_argument", "error": "this port speaks HTTPS"}
    }
    cluster.on("GET", "/info", lambda _: (400, problem))
    found = by_name(det(cluster.url, "--json"))["master"]
    assert found["status"] == "failed"
    assert found["advice"] == "set its URL with -m or DET_MASTER"


@pytest.mark.slow
def test_the_login_may_be_missing_or_expired(cluster: ScriptedMaster) -> None:
    missing = by_name(det(cluster.url, "--json"))["login"]
    assert (missing["status"], missing["found"]) == ("warning", "not logged in")
    TokenCache().remember(cluster.url, "ann", "old")
    cluster.on("GET", "/api/v1/me", lambda _: (401, {}))
    expired = by_name(det(cluster.url, "--json"))["login"]
    assert expired["found"] == "the login of ann has expired"
    assert expired["advice"] == f"det -m {cluster.url} user login ann"


@pytest.mark.slow
def test_another_version_of_the_master_is_a_warning(cluster: ScriptedMaster) -> None:
    cluster.on("GET", "/info", {"version": "0.38.1", "windlass_version": "9.9.9"})
    check = by_name(det(cluster.url, "--json"))["master"]
    assert check["status"] == "warning"
    assert __version__ in check["advice"]
    cluster.on("GET", "/info", {"version": "0.38.0"})
    assert "Determined 0.38.0" in by_name(det(cluster.url, "--json"))["master"]["found"]


def test_an_old_python_fails() -> None:
    assert check_python((3, 11, 2)).status is CheckStatus.OK
    assert check_python((3, 10, 9)).status is CheckStatus.FAILED


def test_extras_are_installed_not_or_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    requires = ["typer>=1", "psutil>=7 ; extra == 'agent'", "no-such>=1; extra == 'agent'"]
    monkeypatch.setattr(metadata, "requires", lambda _: requires)
    check = check_extra("agent")
    assert (check.status, check.found) == (CheckStatus.WARNING, "missing: no-such")
    assert "pip install 'windlass-cluster[agent]'" in check.advice
    monkeypatch.setattr(metadata, "requires", lambda _: requires[::2])
    assert check_extra("agent").found == "not installed"
    monkeypatch.setattr(metadata, "requires", lambda _: requires[:2])
    assert check_extra("agent").found == "installed"


@pytest.mark.parametrize(
    ("script", "published", "status", "found"),
    [
        ("from windlass.cli.main import run", None, CheckStatus.OK, ""),
        (
            "from determined.cli import main",
            "0.38.1",
            CheckStatus.WARNING,
            "belongs to the package",
        ),
        ("from windlass.cli.main import run", "0.38.1", CheckStatus.WARNING, "replaced that of"),
    ],
)
def test_the_clash_of_the_two_det_is_told(
    script: str,
    published: str | None,
    status: CheckStatus,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "det").write_text(f"#!python\n{script}\n")
    (tmp_path / "det").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_version_of", lambda _: published)
    check = check_scripts(tmp_path)
    assert check.status is status
    assert found in check.found


def test_another_det_first_on_path_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "det").write_text("#!python\nwindlass")
        (tmp_path / name / "det").chmod(0o755)
    monkeypatch.setattr(doctor, "_version_of", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}{os.pathsep}{tmp_path / 'mine'}")
    check = check_scripts(tmp_path / "mine")
    assert check.status is CheckStatus.WARNING
    assert f"put {tmp_path / 'mine'} first on PATH" in check.advice


def test_a_hidden_package_fails(tmp_path: Path) -> None:
    check = check_shadowed({"master": tmp_path / "master.py"})
    assert check.status is CheckStatus.FAILED
    assert f"{tmp_path / 'master.py'} hides the package 'master'" in check.advice


def test_the_data_folder_must_be_a_writable_secret(tmp_path: Path) -> None:
    assert check_folder(tmp_path / "new" / "folder").status is CheckStatus.OK
    (tmp_path / "file").touch()
    assert "is not a directory" in check_folder(tmp_path / "file" / "below").found
    secret = tmp_path / "secret"
    secret.touch(0o600)
    assert check_folder(tmp_path).status is CheckStatus.OK
    secret.chmod(0o644)
    check = check_folder(tmp_path)
    assert (check.status, check.advice) == (CheckStatus.FAILED, f"chmod 600 {secret}")


def test_what_an_agent_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    works = Isolation(IsolationKind.BUBBLEWRAP, program="bwrap")
    monkeypatch.setattr(agent_checks, "find_isolation", lambda *_: works)
    gpu = Gpu(slot=0, kind=SlotKind.CUDA, index=0, uuid="GPU-1", name="H200")
    monkeypatch.setattr(agent_checks, "nvidia_gpus", lambda: FoundGpus(gpus=(gpu, gpu)))
    monkeypatch.setattr(agent_checks, "amd_gpus", FoundGpus)
    monkeypatch.setattr(agent_checks, "find_images", lambda _: (None, ()))
    namespaces, containers, gpus = agent_checks.checks()
    assert namespaces.status is CheckStatus.OK
    assert containers.found == "no engine: tasks run as processes"
    assert gpus.found == "2: H200"
    monkeypatch.setattr(agent_checks, "find_isolation", lambda *_: Isolation(note="no kernel"))
    monkeypatch.setattr(agent_checks, "nvidia_gpus", lambda: FoundGpus(notes=("GPU 3 is lost",)))
    monkeypatch.setattr(agent_checks, "find_images", lambda _: (None, ("docker starts none",)))
    namespaces, containers, gpus = agent_checks.checks()
    assert (namespaces.status, namespaces.found) == (CheckStatus.WARNING, "no kernel")
    assert (containers.status, containers.found) == (CheckStatus.WARNING, "docker starts none")
    assert gpus.found.startswith("none: the agent offers one CPU slot")
    assert (gpus.status, gpus.advice) == (CheckStatus.WARNING, "GPU 3 is lost")
