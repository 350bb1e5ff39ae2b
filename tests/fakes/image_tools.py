"""Stand-ins for Apptainer, Singularity and Enroot: programs that answer only command lines as recorded from the real
ones' documentation, and really run the command, by bubblewrap, in the image that they made.

A registry has NET (with the shell and Python of this machine), BARE (without Python), PRIVATE (for USER and PASSWORD).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.jails import open_way_to

NET, BARE, PRIVATE = "registry.example/team/net:1", "registry.example/bare:1", "private.example/a:1"
USER, PASSWORD = "me", "hunter2"
PYTHON = "/usr/bin/python3"
_SCRIPT = Path(__file__).with_name("image_tools_program.py")


@dataclass(frozen=True, slots=True)
class ImageTools:
    """The folder of the programs, to be first in PATH."""

    folder: Path

    @property
    def calls(self) -> list[list[str]]:
        """What they were asked, in order; without the folder of the program."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        return [json.loads(line) for line in lines]

    def rootfs(self, name: str = "net") -> Path:
        """An unpacked image."""
        return self.folder / "rootfs" / name

    def hold(self) -> None:
        """Pulls take until `let_go`."""
        (self.folder / "held").touch()

    def break_down(self) -> None:
        """They start nothing any more."""
        (self.folder / "broken").touch()

    def let_go(self) -> None:
        (self.folder / "held").unlink()


def image_tools(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ImageTools:
    for program in ("bwrap", PYTHON):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (as root: apt-get install bubblewrap python3)")
    tools = ImageTools(folder)
    for name in ("net", "bare"):
        rootfs = tools.rootfs(name)
        for below in ("etc", "opt", "run", "usr/bin"):
            (rootfs / below).mkdir(parents=True)
        (rootfs / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (rootfs / "name").write_text(name)
    text = _SCRIPT.read_text().replace("#!/usr/bin/env python3", f"#!{PYTHON} -IS", 1)
    for name in ("apptainer", "singularity", "enroot"):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "calls").touch()
    (folder / "calls").chmod(0o666)
    open_way_to(folder / "x")
    folder.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return tools
