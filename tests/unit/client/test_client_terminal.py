"""What others wrote gives a terminal no orders; files and programs are given the bytes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster, log_in

from windlass.cli.output.terminal import escaped

REPOSITORY = Path(__file__).parents[3]
WAIT_S = 60
ORDERS = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\r\x9b31m\u202egnp.exe\ttab"
SHOWN = "\\x1b]52;c;ZXZpbA==\\x07\\x1b[2J\\x0d\\x9b31m\\u202egnp.exe"


@pytest.fixture
def cluster(master: ScriptedMaster) -> ScriptedMaster:
    log_in(master)
    line = {"id": "1", "message": f"{ORDERS}\n"}
    lines = json.dumps({"result": line}).encode() + b"\n"
    master.on("GET", "/api/v1/trials/11/logs", lambda _: (200, lines))
    experiment = {"id": 1, "name": ORDERS, "state": "STATE_COMPLETED", "description": ORDERS}
    found = {"experiments": [experiment], "pagination": {"endIndex": 1, "total": 1}}
    master.on("GET", "/api/v1/experiments", lambda _: (200, found))
    error = {"error": {"code": 5, "error": f"no such {ORDERS}"}}
    master.on("GET", "/api/v1/trials/12/logs", lambda _: (404, error))
    return master


def on_a_terminal(master: ScriptedMaster, *arguments: str) -> str:
    """What a terminal of 80 columns is sent, output and errors."""
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-P", "-m", "windlass", "-m", master.url, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "NO_COLOR": "1",
            "TERM": "dumb",  # which rich takes for one of 80 columns
        },
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        check=False,
        timeout=WAIT_S,
    )
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # EIO: all was read
        while chunk := os.read(ours, 4096):
            shown += chunk
    os.close(ours)
    return shown.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("t", "logs", "11"), ("e", "list"), ("t", "logs", "12")], ids=" ".join
)
def test_a_terminal_is_shown_control_characters(
    cluster: ScriptedMaster, arguments: tuple[str, ...]
) -> None:
    shown = on_a_terminal(cluster, *arguments)
    # An error is one line: any white space in it is a space.
    assert SHOWN in shown or SHOWN.replace("\\x0d", " ") in shown
    assert not any(order in shown for order in ("\x1b", "\x07", "\x9b", "\u202e"))


@pytest.mark.slow
def test_a_table_is_no_wider_than_the_terminal(cluster: ScriptedMaster) -> None:
    why = f"task failed with exit code 1: {'/long' * 30}/python3: no JupyterLab"
    notebook = {
        "id": "0a1b2c3d-0000-4000-8000-000000000001",
        "username": "determined",
        "description": "JupyterLab (grand-partly-lark)",
        "state": "STATE_TERMINATED",
        "exitStatus": why,
        "resourcePool": "default",
        "startTime": "2026-01-02T03:04:05Z",
    }
    listed = {"notebooks": [notebook], "pagination": {"endIndex": 1, "total": 1}}
    cluster.on("GET", "/api/v1/notebooks", listed)
    shown = on_a_terminal(cluster, "notebook", "list", "-a")
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("0a1b2c3d ")
    assert "task failed" in shown
    assert "Cut to fit the terminal: " in shown
    assert "Exit status" in lines[-1]


def test_who_asks_for_the_bytes_is_given_them(cluster: ScriptedMaster) -> None:
    assert ORDERS in on_a_terminal(cluster, "t", "logs", "11", "--raw")


def test_what_is_no_terminal_is_given_the_bytes(cluster: ScriptedMaster) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "windlass", "-m", cluster.url, "t", "logs", "11"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        check=True,
        timeout=WAIT_S,
    )
    assert done.stdout.decode() == f"{ORDERS}\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with tab\tand\nlines", "plain, with tab\tand\nlines"),
        ("é 日本 \U0001f980 \u00a0", "é 日本 \U0001f980 \u00a0"),
        ("\0\x1b\x7f\x80", "\\x00\\x1b\\x7f\\x80"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("\\x1b", "\\x1b"),
    ],
)
def test_only_orders_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
