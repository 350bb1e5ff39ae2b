"""What every task waits for before its first line: few modules, and their bytecode for every user."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import agent_bootstrap
from agent_bootstrap.agent.bytecode import FOLDERS, share_bytecode

ROOT = Path(agent_bootstrap.__file__).resolve().parent.parent
SEE = "import json, sys; print(json.dumps({n: getattr(m, '__file__', None) for n, m in sys.modules.items()}))"


def imported(*words: str, module: str) -> dict[str, str | None]:
    """The modules that are there once `module` is."""
    program = f"import sys; sys.path.append({str(ROOT)!r}); import {module}; {SEE}"
    done = subprocess.run([sys.executable, *words, "-c", program], capture_output=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["supervisor", "task_init"])
def test_what_stands_above_a_task_imports_no_typing(module: str) -> None:
    found = imported("-I", "-S", module=f"agent_bootstrap.supervisor.{module}")
    assert {"typing", "logging", "dataclasses", "pathlib", "subprocess"} & found.keys() == set()


def test_the_launcher_imports_only_what_every_task_needs() -> None:
    found = imported("-P", module="windlass.launch.__main__")
    seldom = {"logging", "uuid", "concurrent.futures", "windlass.base.tls.trust"}
    core = {"windlass.core._checkpoint", "windlass.core._context", "windlass.core._distributed"}
    assert (seldom | core) & found.keys() == set()


def test_all_that_the_launcher_and_the_process_above_it_import_is_shared() -> None:
    found = imported("-P", module="windlass.launch.__main__")
    found |= imported("-I", "-S", module="agent_bootstrap.supervisor.task_init")
    ours = {
        Path(file).parent for file in found.values() if file and Path(file).is_relative_to(ROOT)
    }
    ours = {folder for folder in ours if ".venv" not in folder.parts}
    assert ours
    assert {str(folder.relative_to(ROOT)) for folder in ours} <= set(FOLDERS)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One module of the launcher, and bytecode as an agent leaves it that keeps its files to itself."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "windlass" / "launch"
    folder.mkdir(parents=True)
    (folder / "module.py").write_text("VALUE = 1\n")
    (folder / "module.py").chmod(0o644)
    folder.chmod(0o755)
    (folder / "__pycache__").mkdir(mode=0o700)
    return folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def compiled(folder: Path) -> Path:
    (found,) = (folder / "__pycache__").iterdir()
    return found


def test_bytecode_is_made_and_read_by_all_who_may_read_the_source(installed: Path) -> None:
    share_bytecode(installed.parents[1])
    assert mode(installed / "__pycache__") == 0o755
    assert mode(compiled(installed)) & 0o777 == 0o644


def test_bytecode_that_is_there_is_opened_and_not_made_again(installed: Path) -> None:
    share_bytecode(installed.parents[1])
    made = compiled(installed)
    made.chmod(0o600)
    before = made.stat().st_ino
    share_bytecode(installed.parents[1])
    assert (mode(made), made.stat().st_ino) == (0o644, before)


def test_what_is_private_stays_private(installed: Path) -> None:
    (installed / "module.py").chmod(0o600)
    share_bytecode(installed.parents[1])
    assert mode(compiled(installed)) == 0o600


def test_a_source_of_somebody_else_is_left_alone(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: installed.stat().st_uid + 1)
    share_bytecode(installed.parents[1])
    assert list((installed / "__pycache__").iterdir()) == []


def test_a_link_in_place_of_the_folder_is_not_followed(installed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (installed / "__pycache__").rmdir()
    (installed / "__pycache__").symlink_to(elsewhere)
    share_bytecode(installed.parents[1])
    assert mode(elsewhere) == 0o700


def test_whoever_wants_no_bytecode_gets_none(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    share_bytecode(installed.parents[1])
    assert list((installed / "__pycache__").iterdir()) == []
