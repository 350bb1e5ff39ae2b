"""`windlass admin apply`: how steps are shown, and where passwords come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.base.errors import InvalidArgument
from windlass.sdk.cluster_file.model import AgentUser, Password
from windlass.sdk.cluster_file.perform import Passwords
from windlass.sdk.cluster_file.state import Action, Change, Holder, Kind, Step
from windlass.sdk.cluster_file.text import diff, document, title

WHO = AgentUser(user="ann", uid=1001, group="vision", gid=2001)
SHOWN = [
    (
        Step(
            action=Action.CREATE,
            kind=Kind.USER,
            name="ann",
            changes=(
                Change("admin", None, True),
                Change("agent_user", None, WHO),
                Change("password", None, Password(env="ANN")),
            ),
        ),
        "+ user ann",
        [
            "admin: true",
            "agent_user: ann:vision (1001:2001)",
            "password: from the variable ANN",
        ],
    ),
    (
        Step(
            action=Action.CHANGE,
            kind=Kind.USER,
            name="ann",
            changes=(Change("display_name", "", "Ann"), Change("agent_user", WHO, None)),
        ),
        "~ user ann",
        ["display_name: nothing -> Ann", "agent_user: ann:vision (1001:2001) -> nothing"],
    ),
    (
        Step(
            action=Action.CHANGE,
            kind=Kind.GROUP,
            name="red",
            changes=(Change("members", ("ann", "bob"), ("bob", "carl")),),
        ),
        "~ group red",
        ["+ carl", "- ann"],
    ),
    (
        Step(
            action=Action.REMOVE,
            kind=Kind.ROLE,
            name="Viewer",
            workspace="lab",
            holder=Holder("group", "red"),
        ),
        "- role Viewer of group red in workspace lab",
        [],
    ),
    (
        Step(
            action=Action.CHANGE,
            kind=Kind.POOL,
            name="gpu",
            changes=(Change("workspaces", ("lab",), ()),),
        ),
        "~ resource pool gpu",
        ["- lab", "it is everybody's again"],
    ),
    (
        Step(
            action=Action.CHANGE,
            kind=Kind.POLICY,
            name="tasks",
            changes=(Change("policy", {"a": 1, "b": 2}, {"a": 1, "b": 3}),),
        ),
        "~ config policy for tasks of the cluster",
        [" a: 1", "-b: 2", "+b: 3"],
    ),
    (
        Step(
            action=Action.CHANGE,
            kind=Kind.WORKSPACE,
            name="lab",
            changes=(
                Change("default_aux_pool", "", "cpu"),
                Change("checkpoint_storage", {"type": "shared_fs"}, None),
            ),
        ),
        "~ workspace lab",
        ["default_aux_pool: nothing -> cpu", "checkpoint_storage:", "-type: shared_fs"],
    ),
    (
        Step(
            action=Action.CHANGE,
            kind=Kind.WORKSPACE,
            name="lab",
            changes=(
                Change(
                    "checkpoint_storage",
                    {"access_key": "AK", "secret_key": "hush", "type": "s3"},
                    {"access_key": "AK", "secret_key": "hush-hush", "type": "s3"},
                ),
            ),
        ),
        "~ workspace lab",
        [
            "checkpoint_storage:",
            " access_key: '********'",
            "-secret_key: '********'",
            "+secret_key: '******** (new)'",
            " type: s3",
        ],
    ),
    (
        Step(
            action=Action.CREATE,
            kind=Kind.TEMPLATE,
            name="t",
            workspace="lab",
            changes=(Change("config", None, {"a": 1}),),
        ),
        "+ template t in workspace lab",
        ["+a: 1"],
    ),
]


@pytest.mark.parametrize(("step", "line", "below"), SHOWN)
def test_how_a_step_is_shown(step: Step, line: str, below: list[str]) -> None:
    assert (title(step), diff(step)) == (line, below)
    shown = document(step, "planned")
    assert [one["field"] for one in shown["changes"]] == [one.field for one in step.changes]
    assert "hush" not in str(shown)


def test_a_password_is_the_first_line_of_a_file_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "ann").write_text("Secret-of-ann-1\nand more\n")
    passwords = Passwords(tmp_path, {"BOB": "Secret-of-bob-1"})
    assert passwords.read(Password(file="ann")) == "Secret-of-ann-1"
    assert passwords.read(Password(env="BOB")) == "Secret-of-bob-1"


@pytest.mark.parametrize(
    ("password", "said"),
    [
        (Password(env="NONE"), "the variable NONE is not set"),
        (Password(file="none"), "none: No such file or directory; write the password there"),
        (Password(file="odd"), "odd: not a text file"),
        (Password(env="SHORT"), "the password of the variable SHORT needs at least 8 characters"),
    ],
)
def test_what_is_no_password_is_refused_without_it(
    tmp_path: Path, password: Password, said: str
) -> None:
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument) as refused:
        Passwords(tmp_path, {"SHORT": "Hunt2"}).read(password)
    assert said in refused.value.message
    assert "Hunt2" not in refused.value.message
