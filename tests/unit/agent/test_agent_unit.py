"""The systemd unit of an agent: what systemd itself says of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_bootstrap.agent.membership.places import places
from agent_bootstrap.agent.membership.systemd import ServiceError, Systemd, unit_text


def test_words_are_taken_as_they_are() -> None:
    text = unit_text(["/a b/python", "100%", "$HOME", 'say "x"'], user=True)
    line = 'ExecStart="/a b/python" 100%% $$HOME "say \\"x\\""'
    assert line in text.splitlines()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("user", [True, False])
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path, user: bool) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    unit = tmp_path / "windlass-agent.service"
    unit.write_text(unit_text([sys.executable, "-P", "-m", "x", str(folder / "a.yaml")], user=user))
    scope = ["--user"] if user else []
    done = subprocess.run(
        ["systemd-analyze", *scope, "--man=no", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    mine = [line for line in done.stderr.splitlines() if "windlass-agent" in line]
    # systemd 253 and earlier warn, and go on.
    assert [line for line in mine if "Unknown key 'DelegateSubgroup'" not in line] == []


def test_where_there_is_no_systemd_the_reason_is_said() -> None:
    def missing(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError

    service = Systemd(places(user=True), environ={}, run=missing)
    assert service.problem() == "systemctl is not installed"

    def failing(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "noise\nFailed to connect to bus\n")

    service = Systemd(places(user=True), environ={}, run=failing)
    assert service.problem() == "Failed to connect to bus"
    with pytest.raises(ServiceError, match=r"systemctl --user start .* failed"):
        service._systemctl("start", "windlass-agent.service")
