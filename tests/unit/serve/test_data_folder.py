"""The data folder belongs to one process, and mistakes on the command line make nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from master.data_folder import SECRET, held, of_a_master
from windlass.base.errors import Conflict, InvalidArgument

HOLD = """
import sys
from pathlib import Path
from master.data_folder import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Conflict, match=f"process id {holder.pid}"), held(tmp_path):
            pass
        holder.kill()
    with held(tmp_path):
        pass  # however the first one ended


def test_the_folder_is_made_private_and_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with held(Path("data")) as folder:
        assert folder == tmp_path / "data"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "lock").read_text() == str(os.getpid())


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(InvalidArgument, match="is a file"), held(tmp_path / "data"):
        pass


def test_a_mistyped_folder_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is not the data folder of a master"):
        of_a_master(tmp_path / "typo")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / SECRET).touch()
    assert of_a_master(tmp_path) == tmp_path


def test_another_user_s_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by root, who could write there: the owner's master could not read what root leaves."""
    (tmp_path / SECRET).touch()
    if os.geteuid() == 0:
        os.chown(tmp_path / SECRET, 4242, 4242)
        with pytest.raises(InvalidArgument, match=r"of user 4242, .* of user root: run it as 4242"):
            held(tmp_path).__enter__()
    else:
        tmp_path.chmod(0o500)
        with pytest.raises(InvalidArgument, match="cannot be written by user"):
            held(tmp_path).__enter__()


AS_SOMEBODY = """
import os, sys
from pathlib import Path
from master.data_folder import held
from windlass.base.errors import InvalidArgument
os.setuid(65534)
try:
    with held(Path(sys.argv[1])):
        print("held")
except InvalidArgument as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_somebody_else_is_told_whose_folder_it_is(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as public:
        Path(public).chmod(0o755)
        folder = Path(public) / "data"
        folder.mkdir(mode=0o755)
        done = subprocess.run(
            [sys.executable, "-P", "-c", AS_SOMEBODY, str(folder)],
            check=True,
            capture_output=True,
            text=True,
        )
    assert (
        "cannot be written by user nobody, it belongs to user root: run it as root" in done.stdout
    )


def test_a_read_only_file_system_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("master.data_folder.os.open", refuse)
    with pytest.raises(InvalidArgument, match="is on a read-only file system: mount it"):
        held(tmp_path).__enter__()
