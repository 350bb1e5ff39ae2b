"""`--ssh`: what is said of a login node without Windlass, and the line that forwards a port."""

from __future__ import annotations

import pytest

from master.hpc.remote import SshLogin, not_installed
from windlass.base.ssh_forward import ssh_line


@pytest.mark.parametrize(
    ("pythons", "words"),
    [
        ("", "which has no Python, and it needs 3.11 or newer: get one there (module load python"),
        ("Python 3.6.8\n", "which has Python 3.6, and it needs 3.11 or newer"),
        ("Python 3.9.2\nPython 3.12.1\n", "python3 is 3.9, too old, and python3.12 is there"),
        (
            "Python 3.11.2\n",
            "Windlass is not installed on me@login: ssh me@login, then: python3 -m venv",
        ),
        ("Python 3.13.0rc1\nnonsense\n", "ssh me@login, then: python3 -m venv"),
    ],
)
def test_a_login_node_without_windlass(pythons: str, words: str) -> None:
    said = not_installed(SshLogin(spec="me@login"), pythons)
    assert words in said
    assert "'windlass-cluster[hpc]'" in said


def test_a_program_that_is_not_there() -> None:
    said = not_installed(SshLogin(spec="me@login", program="/opt/windlass"), "Python 3.12.1")
    assert said == "there is no program /opt/windlass on me@login: correct --ssh-windlass"


@pytest.mark.parametrize(
    ("host", "login", "line"),
    [
        ("10.0.0.5", "", "ssh -N -L 20001:10.0.0.5:20001 me@login2"),
        ("10.0.0.5", "you@cluster.org", "ssh -N -L 20001:10.0.0.5:20001 you@cluster.org"),
        ("10.0.0.5", "cluster:2222", "ssh -N -L 20001:10.0.0.5:20001 -p 2222 cluster"),
        ("fd00::5", "", "ssh -N -L 20001:[fd00::5]:20001 me@login2"),
    ],
)
def test_the_line_that_forwards_a_port(host: str, login: str, line: str) -> None:
    """Any login node forwards to the address of the one where the master is: they come in round robin."""
    assert ssh_line(host, 20001, user="me", host="login2", login=login) == line
