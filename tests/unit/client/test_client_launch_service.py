"""What the launchers of shells and notebooks decide by themselves."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.errors import InvalidArgument
from windlass.launch.idleness import Usage, is_idle
from windlass.launch.notebook import options
from windlass.launch.ports import LOOPBACK, hold
from windlass.launch.readiness import end_told
from windlass.launch.shell import passed, require_rights

KERNEL = {"connections": 0, "execution_state": "idle", "last_activity": "2026-01-01T00:00:00Z"}
LATER = {**KERNEL, "last_activity": "2026-01-01T00:00:30Z"}


@pytest.mark.parametrize(
    ("kind", "now", "before", "idle"),
    [
        ("kernels_or_terminals", Usage(), None, True),
        ("kernels_or_terminals", Usage(kernels=[KERNEL]), None, False),
        ("kernels_or_terminals", Usage(terminals=[{"name": "1"}]), None, False),
        ("kernels_or_terminals", Usage(sessions=[{"id": "s"}]), None, False),
        ("kernel_connections", Usage(kernels=[KERNEL]), None, True),
        ("kernel_connections", Usage(kernels=[{**KERNEL, "connections": 1}]), None, False),
        ("activity", Usage(kernels=[KERNEL]), None, False),
        ("activity", Usage(kernels=[KERNEL]), Usage(kernels=[KERNEL]), True),
        ("activity", Usage(kernels=[LATER]), Usage(kernels=[KERNEL]), False),
        ("activity", Usage(terminals=[LATER]), Usage(terminals=[KERNEL]), False),
        (
            "activity",
            Usage(kernels=[{**KERNEL, "execution_state": "busy"}]),
            Usage([KERNEL]),
            False,
        ),
    ],
)
def test_what_counts_as_idle(kind: str, now: Usage, before: Usage | None, idle: bool) -> None:
    assert is_idle(kind, now, before) is idle


def test_sessions_get_the_environment_but_what_is_theirs() -> None:
    environment = {"A": "1", "HOME": "/h", "TERM": "x", "LC_ALL": "C", "BASH_FUNC_f%%": "() {"}
    assert list(passed(environment)) == ['environment="A=1"']


def test_a_port_is_held_until_the_service_listens() -> None:
    held = hold(0)
    assert held is not None
    with held:
        port = held.getsockname()[1]
        assert hold(port) is None, "another task that begins now"
        with socket.create_server((LOOPBACK, port)):
            assert hold(port) is None
    again = hold(port)
    assert again is not None
    again.close()


def test_services_listen_for_this_machine_alone_unless_the_agent_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert options("/", 1)[0] == "--ServerApp.ip=127.0.0.1"
    monkeypatch.setenv("WINDLASS_LISTEN_ADDRESS", "0.0.0.0")  # noqa: S104
    assert options("/", 1)[0] == "--ServerApp.ip=0.0.0.0"


def test_a_shell_as_root_says_at_once_that_nobody_could_log_in() -> None:
    require_rights("Name:\tsh\nCapEff:\t00000000a80425fb\n")
    with pytest.raises(InvalidArgument, match=r"as root here.*link-with-agent-user"):
        require_rights("CapPrm:\t00000000a80425fb\nCapEff:\t0000000000000000\n")


def test_when_it_ends_is_told_with_what_is_kept() -> None:
    told = end_told("2026-11-24T18:00:00.000000Z")
    assert told.startswith("This task ends at 2026-11-24 18:00 UTC, with the time of its node. ")
    assert "bind_mounts" in told


def as_sshd_reads(option: str) -> str:
    """What is between the quotes, and nothing may be after them: `opt_dequote` of OpenSSH."""
    assert option.startswith('environment="')
    text, at = "", len('environment="')
    while option[at] != '"':
        at += option[at : at + 2] == '\\"'
        text, at = text + option[at], at + 1
    assert at == len(option) - 1
    return text


@given(st.text(st.sampled_from('a\\" \n=,')))
def test_a_value_arrives_as_it_is_but_for_line_ends(value: str) -> None:
    options = list(passed({"NAME": value}))
    assert [as_sshd_reads(option) for option in options] == (
        [] if value.endswith("\\") else ["NAME=" + value.replace("\n", "\\n")]
    )
