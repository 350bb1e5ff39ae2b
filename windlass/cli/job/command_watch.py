"""Watching a command from its launch to its exit status, and finding it by the beginning of its id."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.job.words import in_names
from windlass.cli.output.follow import POLL_S, patiently, print_entries
from windlass.cli.output.text import notice, waiting_text
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

SUCCESS = "success"
"""The exit status of a command that succeeded."""
DETACHED = 130
"""The exit code of a program that was interrupted, as shells have it."""
FIRST_LOOK_S = 0.2
SHORT_ID = 8
"""Characters of an id that people get to see: the first group of a UUID."""
_FULL_ID = re.compile(r"(\d+\.)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def full_ids(client: Client, prefixes: Sequence[str]) -> list[str]:
    """The id that each prefix begins. Raises InvalidArgument if there is none, or more than one."""
    if all(_FULL_ID.fullmatch(prefix) for prefix in prefixes):
        return list(prefixes)
    known = [str(command["id"]) for command in client.commands()]
    return [_full_id(prefix, known) for prefix in prefixes]


def _full_id(prefix: str, known: Sequence[str]) -> str:
    if _FULL_ID.fullmatch(prefix):
        return prefix
    found = [id_ for id_ in known if prefix and id_.startswith(prefix.lower())]
    if not found:
        raise InvalidArgument(f"No command id begins with '{prefix}': see `det cmd list -a`")
    if len(found) > 1:
        raise InvalidArgument(
            f"{len(found)} command ids begin with '{prefix}': {', '.join(sorted(found))}"
        )
    return found[0]


def short_ids(ids: Sequence[str]) -> list[str]:
    """The beginnings of ids, of one length, that tell these from each other."""
    length = SHORT_ID
    while len({id_[:length] for id_ in ids}) < len(set(ids)):
        length += 1
    return [id_[:length] for id_ in ids]


def print_task_logs(
    client: Client,
    task_id: str,
    *,
    follow: bool = False,
    head: int | None = None,
    tail: int | None = None,
    as_json: bool = False,
    raw: bool = False,
) -> None:
    print_entries(
        lambda: client.task_logs(task_id, follow=follow, head=head, tail=tail),
        follow=follow,
        as_json=as_json,
        raw=raw,
    )


def watch(client: Client, command_id: str) -> bool:
    """Show what it waits for, then its output, then how it ended. Whether it succeeded.

    An interrupt leaves the command running and raises typer.Exit.
    """
    try:
        _await_start(client, command_id)
        print_task_logs(client, command_id, follow=True)
        status = str(_await_end(client, command_id).get("exitStatus") or "")
    except KeyboardInterrupt:
        notice(
            f"\nDetached; command {command_id} keeps running. Show its log: `det cmd logs -f {command_id}`. "
            f"Stop it: `det cmd kill {command_id}`"
        )
        raise typer.Exit(DETACHED) from None
    notice(f"Command {command_id} ended: {status or 'no exit status'}")
    return status == SUCCESS


def _await_start(client: Client, command_id: str) -> None:
    """Until it has somewhere to run. A reason is said once it has lasted for two looks: most commands start at once."""
    last = said = ""
    pause_s = FIRST_LOOK_S
    while (command := _look(client, command_id)).get("state") == "STATE_QUEUED":
        reason = waiting_text(command)
        if reason == last and reason != said:
            _say_reason(client, reason)
            said = reason
        last = reason
        time.sleep(pause_s)
        pause_s = min(POLL_S, pause_s * 1.5)


def _say_reason(client: Client, reason: str) -> None:
    (text,) = patiently(lambda: in_names(client, [reason]))
    notice(f"Waiting: {text}")


def _await_end(client: Client, command_id: str) -> Json:
    while (command := _look(client, command_id)).get("state") != "STATE_TERMINATED":
        time.sleep(FIRST_LOOK_S)
    return command


def _look(client: Client, command_id: str) -> Json:
    return dict(patiently(lambda: client.command(command_id))["command"])
