"""A user's own module with the name of one of our packages: told in one sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.base.packages import PACKAGES, ShadowedPackage, refuse_shadowed, shadowed


def windlass(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "windlass", *arguments],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_our_own_packages_are_not_shadowed() -> None:
    assert shadowed() == {}
    refuse_shadowed()


def test_python_m_windlass_is_the_command(tmp_path: Path) -> None:
    done = windlass("--version", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("windlass ")


@pytest.mark.slow
@pytest.mark.parametrize("file", ["master.py", "master/__init__.py", "provisioner.py"])
@pytest.mark.parametrize("by_path", [True, False])
def test_a_file_that_hides_a_package_of_the_server_is_named(
    tmp_path: Path, file: str, by_path: bool
) -> None:
    path = tmp_path / "mine" / file
    path.parent.mkdir(parents=True)
    path.write_text("raise SystemExit('the user\\'s own program ran')")
    if by_path:
        (tmp_path / "elsewhere").mkdir()
        done = windlass(
            "master", "run", cwd=tmp_path / "elsewhere", PYTHONPATH=str(tmp_path / "mine")
        )
    else:
        done = windlass("master", "run", cwd=tmp_path / "mine")
    assert done.returncode == 1
    shadow = path.parent if path.name == "__init__.py" else path
    name = shadow.stem
    assert done.stderr == (
        f"error: {shadow} hides the package '{name}' of windlass-cluster: rename it, "
        f"or take {shadow.parent} off PYTHONPATH and run from another directory\n"
    )


def test_users_commands_work_beside_a_file_named_master(tmp_path: Path) -> None:
    (tmp_path / "master.py").write_text("raise SystemExit('the user\\'s own program ran')")
    done = windlass("master", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "info" in done.stdout
    assert "hides the package 'master'" in done.stderr


def test_a_folder_without_code_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "master").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert shadowed() == {}


def test_shadowing_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rm_backends.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert shadowed() == {"rm_backends": tmp_path / "rm_backends.py"}
    with pytest.raises(ShadowedPackage, match="rm_backends"):
        refuse_shadowed()
