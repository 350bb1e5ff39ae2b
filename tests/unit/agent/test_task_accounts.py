"""The names of users and groups as a task sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.accounts import (
    GROUP,
    PASSWD,
    supplementary_groups,
    with_account,
    write_copies,
)
from agent_bootstrap.container_options import OsUser

MACHINE = {
    PASSWD: "root:x:0:0:root:/root:/bin/bash\nann:x:5:5::/home/old:/bin/sh\nbob:x:1000:100::/b:/x\n",
    GROUP: "root:x:0:\nstaff:x:7:bob\nusers:x:100:ann,bob\n",
}
ANN = OsUser(uid=1000, gid=100, user="ann", group="staff")


def test_the_tasks_own_names_are_the_only_ones_of_their_words_and_numbers() -> None:
    """Neither the machine's ann (5) nor its bob (1000) may answer for the task's ann (1000)."""
    texts = with_account(MACHINE, ANN, "/run/determined/workdir", "/bin/bash")
    assert texts[PASSWD].splitlines() == [
        "ann:x:1000:100::/run/determined/workdir:/bin/bash",
        "root:x:0:0:root:/root:/bin/bash",
    ]
    assert texts[GROUP].splitlines() == ["staff:x:100:", "root:x:0:"]


@pytest.mark.parametrize("name", ["DOMAIN\\ann", "a" * 65, "-ann"])
def test_a_name_that_the_file_cannot_hold_is_its_number(name: str) -> None:
    who = OsUser.model_construct(uid=70001, gid=70002, user=name, group=name)
    texts = with_account(MACHINE, who, "/w")
    assert texts[PASSWD].splitlines()[0] == "70001:x:70001:70002::/w:/bin/bash"
    assert texts[GROUP].splitlines()[0] == "70002:x:70002:"


@pytest.mark.parametrize("home", ["/a:b", "/a\nroot::0:0::/:/bin/sh"])
def test_a_home_cannot_bring_an_account_of_its_own(home: str) -> None:
    lines = with_account(MACHINE, ANN, home)[PASSWD].splitlines()
    assert lines[0] == "ann:x:1000:100::/:/bin/bash"
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("passwd", "shell"),
    [
        ("root:x:0:0:root:/root:/bin/ash\n", "/bin/ash"),
        ("ann:x:1000:100::/:/bin/zsh\nroot:x:0:0:root:/root:/usr/sbin/nologin\n", "/bin/sh"),
        ("root:x:0:0:root:/root:\n", "/bin/sh"),
        ("", "/bin/sh"),
    ],
    ids=["Alpine", "none logs in", "an empty field", "no file"],
)
def test_in_an_image_the_shell_is_the_one_that_root_has_there(passwd: str, shell: str) -> None:
    line = with_account({PASSWD: passwd, GROUP: ""}, ANN, "/w")[PASSWD].splitlines()[0]
    assert line == f"ann:x:1000:100::/w:{shell}"


def test_copies_are_private_until_they_are_given_away(tmp_path: Path) -> None:
    ((copy, replaced),) = write_copies(tmp_path / "accounts", {PASSWD: "x\udcff\n"})
    assert (replaced, copy.read_bytes()) == (PASSWD, b"x\xff\n")
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_groups_of_an_account_come_only_with_its_own_first_group() -> None:
    assert 0 in supplementary_groups(OsUser(uid=0, gid=0, user="root", group="root"))
    assert supplementary_groups(OsUser(uid=0, gid=12345, user="root", group="g")) == []
    assert supplementary_groups(OsUser(uid=2**31 - 3, gid=0, user="u", group="g")) == []
