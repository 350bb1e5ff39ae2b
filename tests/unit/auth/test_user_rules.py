"""What users may be called, and who may stop to administrate."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_bootstrap.container_options import OsUser
from master.auth.user_rules import AgentUserLink, UserPatch, patched, require_password
from master.auth.users import User
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, WindlassError

AT = datetime(2026, 1, 1, tzinfo=UTC)


def user(id_: int, name: str, **more: object) -> User:
    fields: dict[str, object] = {"id": id_, "username": name, "created_at": AT, "modified_at": AT}
    return User(**{**fields, **more})  # type: ignore[arg-type]


ADMIN = user(1, "admin", admin=True)
DETERMINED = user(2, "determined")
ANN = user(3, "ann", display_name="Ann B")
BOB = user(4, "bob")
EVERYBODY = (ADMIN, DETERMINED, ANN, BOB)


def test_only_what_is_given_changes() -> None:
    assert patched(ANN, UserPatch(), EVERYBODY) == ANN
    link = OsUser(uid=1000, gid=1000, user="ann", group="ann")
    changes = UserPatch(
        username=" Anna ",
        display_name=" Anna B ",
        admin=True,
        active=False,
        link=AgentUserLink(link),
        password_hash="h",
    )
    after = patched(ANN, changes, EVERYBODY)
    assert after == replace(
        ANN,
        username="anna",
        display_name="Anna B",
        admin=True,
        active=False,
        agent_user_group=link,
        password_hash="h",
    )
    assert patched(after, UserPatch(link=AgentUserLink(None)), ()).agent_user_group is None
    assert patched(ANN, UserPatch(display_name=" "), EVERYBODY).display_name == ""


def test_a_name_is_one_users_in_any_case() -> None:
    with pytest.raises(Conflict, match="user already exists: ann"):
        patched(BOB, UserPatch(username="ANN"), EVERYBODY)
    assert patched(ANN, UserPatch(username="Ann"), EVERYBODY).username == "ann"


@pytest.mark.parametrize("one", [ADMIN, DETERMINED])
def test_the_first_users_keep_their_names(one: User) -> None:
    """The master would make them again at its next start, with its first password."""
    with pytest.raises(InvalidArgument, match="which keep their names"):
        patched(one, UserPatch(username="root"), EVERYBODY)


@pytest.mark.parametrize(
    "name", ["ann", " Ann b", "BOB", "admin", "determined", "\uff21nn", "a\nb", "x" * 256]
)
def test_nobody_is_shown_as_another(name: str) -> None:
    eve = user(5, "eve")
    with pytest.raises(InvalidArgument, match="display_name"):
        patched(eve, UserPatch(display_name=name), EVERYBODY)
    assert patched(eve, UserPatch(display_name="Jörg E"), EVERYBODY).display_name == "Jörg E"


def test_a_remote_user_has_neither_name_nor_password_here() -> None:
    remote = replace(BOB, remote=True)
    for patch in (UserPatch(username="rob"), UserPatch(password_hash="h")):
        with pytest.raises(InvalidArgument, match="bob is a remote user"):
            patched(remote, patch, EVERYBODY)
        with pytest.raises(InvalidArgument, match="bob is a remote user"):
            patched(BOB, replace(patch, remote=True), EVERYBODY)
        assert not patched(remote, replace(patch, remote=False), EVERYBODY).remote


@pytest.mark.parametrize(
    "patch", [UserPatch(admin=False), UserPatch(active=False), UserPatch(remote=True)]
)
@pytest.mark.parametrize(
    "other",
    [
        BOB,
        replace(BOB, admin=True, active=False),
        replace(BOB, admin=True, remote=True),
    ],
)
def test_somebody_can_still_administrate(patch: UserPatch, other: User) -> None:
    with pytest.raises(InvalidState, match="admin is the last active administrator"):
        patched(ADMIN, patch, (ADMIN, other))
    patched(ADMIN, patch, (ADMIN, other, replace(ANN, admin=True)))


patches = st.builds(
    UserPatch,
    username=st.none() | st.sampled_from(["ann", "Bob", "carl", "root", "determined"]),
    display_name=st.none() | st.sampled_from(["", "Ann", "Bob B", "carl", "Admin"]),
    admin=st.none() | st.booleans(),
    active=st.none() | st.booleans(),
    remote=st.none() | st.booleans(),
)


@given(st.lists(st.tuples(st.integers(1, 4), patches), max_size=30))
def test_whatever_is_asked_names_stay_different_and_one_administrates(
    asked: list[tuple[int, UserPatch]],
) -> None:
    users = {one.id: one for one in EVERYBODY}
    for id_, patch in asked:
        try:
            users[id_] = patched(users[id_], patch, users.values())
        except WindlassError:
            continue
    assert len({one.username for one in users.values()}) == len(users)
    assert any(one.admin and one.active and not one.remote for one in users.values())


@pytest.mark.parametrize("password", ["Short-1", "all-lower-1", "ALL-UPPER-1", "No-digits"])
def test_a_plain_password_must_be_good_enough(password: str) -> None:
    with pytest.raises(InvalidArgument, match="password: needs"):
        require_password(password)
    require_password("Good-enough-1")
    require_password("")
