"""The wheel as a user gets it: the bare client is small, and nothing of ours is at the top level by accident."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from master.webui.assets import read_assets

ROOT = Path(__file__).parents[3]
UV = Path(sys.executable).with_name("uv")
SERVERS_AND_CLOUDS = frozenset(
    {
        *("fastapi", "starlette", "uvicorn", "sqlalchemy", "sqlmodel", "alembic", "aiosqlite"),
        *("asyncpg", "apscheduler", "argon2-cffi", "structlog", "psutil", "nvidia-ml-py", "docker"),
        *("boto3", "botocore", "google-cloud-compute", "paramiko", "lightkube", "pyslurm", "numpy"),
        *("scikit-learn", "determined"),
    }
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("windlass_cluster-*.whl"))


@pytest.fixture(scope="module")
def bare_client(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel and what it asks for."""
    home = tmp_path_factory.mktemp("bare-client")
    venv.create(home)
    environment = {**os.environ, "VIRTUAL_ENV": str(home)}
    install = [str(UV), "pip", "install", "-q", "-c", str(ROOT / "requirements.lock"), str(wheel)]
    for command in ([*install, "--offline"], install):
        # Offline first: the packages are in the installer's cache when the tests' own environment came from it.
        done = subprocess.run(command, env=environment, check=False, capture_output=True)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr.decode()
    return home / "bin"


def installed(bin_: Path) -> set[str]:
    code = "import importlib.metadata as m; print(*(d.name.lower() for d in m.distributions()))"
    out = subprocess.run([bin_ / "python", "-I", "-c", code], check=True, capture_output=True)
    return set(out.stdout.decode().split())


def test_the_wheel_has_only_our_packages_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    packages = {t for t in tops if not t.endswith(".dist-info")}
    assert packages == {"windlass", "master", "provisioner", "rm_backends", "agent_bootstrap"}


def test_the_wheel_has_the_pages_of_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    static = tmp_path / "master/webui/static"
    assert read_assets(static).version == read_assets().version
    assert (static / "vendor/preact.LICENSE").is_file()
    assert list(tmp_path.rglob("*.d.ts")) == [], "types are for the checks of the checkout"


def test_the_wheel_carries_data_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(n.startswith("master/store/migrations/versions/") for n in names)
    assert ("master/site/index.html" in names) is (ROOT / "master/site").is_dir()
    assert any(n.endswith("dist-info/licenses/LICENSE") for n in names)
    for cloud in ("aws", "gcp"):
        assert f"windlass/deploy/cloud/terraform/{cloud}/modules/master/main.tf" in names
        assert f"windlass/deploy/cloud/files/{cloud}_master.yaml" in names


def test_every_package_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    packages = {n.split("/")[0] for n in names if n.endswith("/__init__.py")}
    assert packages == {"windlass", "master", "provisioner", "rm_backends", "agent_bootstrap"}
    assert {n for n in names if n.endswith("py.typed")} == {f"{p}/py.typed" for p in packages}


def test_the_bare_client_brings_no_server_and_no_cloud(bare_client: Path) -> None:
    names = installed(bare_client)
    assert "windlass-cluster" in names
    assert not names & SERVERS_AND_CLOUDS


def test_the_bare_client_works(bare_client: Path) -> None:
    version = subprocess.run(
        [bare_client / "det", "version", "--help"], check=False, capture_output=True
    )
    assert version.returncode == 0, version.stderr.decode()
    module = subprocess.run(
        [bare_client / "python", "-m", "windlass", "--version"], check=True, capture_output=True
    )
    assert module.stdout.startswith(b"windlass ")
    code = "from windlass import core; print(core.init.__name__)"
    out = subprocess.run(
        [bare_client / "python", "-P", "-c", code], check=True, capture_output=True
    )
    assert out.stdout.decode().strip() == "init"


def test_a_missing_extra_says_what_to_install(bare_client: Path) -> None:
    command = [bare_client / "windlass", "master", "run"]
    done = subprocess.run(command, check=False, capture_output=True, timeout=60)
    assert done.returncode == 1
    said = done.stderr.decode()
    assert "pip install 'windlass-cluster[master]'" in said
    assert "Traceback" not in said
