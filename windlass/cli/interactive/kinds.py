"""The kinds of interactive tasks on the command line: what the verbs that all have need to know of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import typer

from windlass.base.errors import NotFound
from windlass.cli.find import find
from windlass.cli.groups import command_group
from windlass.cli.job.words import is_task_id
from windlass.cli.output.columns import STARTED, STATE, WAITING, Column, Table, joined
from windlass.sdk import interactive
from windlass.sdk.client import Client
from windlass.sdk.interactive import InteractiveTasks, Kind
from windlass.sdk.wire import Json

Fields = Iterable[tuple[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CliKind:
    wire: Kind
    name: str
    """In sentences."""
    word: str
    """As `det` calls it."""
    columns: tuple[Column, ...] = ()
    """Of its list, beyond what all have."""
    fields: Callable[[Json, Json], Fields] = lambda one, config: ()
    """Of one and its configuration, for `describe`, beyond what all have."""
    opens_by_token: bool = False
    """The master gives whoever may open one an address with a token."""
    forget: Callable[[str], object] = lambda task_id: None
    """What this machine keeps of one that is killed."""

    @property
    def title(self) -> str:
        """At the beginning of a sentence."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def table(self) -> Table:
        return Table(
            Column("ID", "id", is_id=True),
            Column("Owner", "username"),
            Column("Description", "description"),
            STATE,
            *self.columns,
            Column("Exit status", "exitStatus"),
            Column("Pool", "resourcePool"),
            STARTED,
            WAITING,
        )

    def group(self) -> typer.Typer:
        """Of its commands, which find it in their context."""
        return command_group(context_settings={"obj": self})

    def of(self, client: Client) -> InteractiveTasks:
        return client.interactive(self.wire)

    def full_id(self, client: Client, word: str) -> str:
        """The whole id of one, of which the first characters are enough. Raises NotFound, Conflict."""
        if is_task_id(word):
            return word
        ids = [str(one["id"]) for one in self.of(client).listed()]
        try:
            return find(self.name, word, ids, hint=f": see `det {self.word} list -a`")
        except NotFound as missing:
            other = _kind_of_id(client, word) if word else None
            if other is None:
                raise
            hint = f": it is a {other.one}, see `det {other.one}`"
            raise NotFound(self.name, word, hint) from missing


def _kind_of_id(client: Client, word: str) -> Kind | None:
    """Of a task whose id begins so. Masters of 0.1 have commands alone."""
    for kind in interactive.KINDS:
        with suppress(NotFound):
            ids = (str(one["id"]) for one in client.interactive(kind).listed())
            if any(id_.startswith(word.lower()) for id_ in ids):
                return kind
    return None


def kind_of(ctx: typer.Context) -> CliKind:
    """Of the command that runs."""
    kind = ctx.obj
    assert isinstance(kind, CliKind)  # noqa: S101 - `CliKind.group` has set it
    return kind


def _entrypoint(_: Json, config: Json) -> Fields:
    return [("entrypoint", config.get("entrypoint"))]


def _address(one: Json, _: Json) -> Fields:
    """What has ended has none any more."""
    over = one.get("state") == "STATE_TERMINATED"
    return [] if over else [("address", one.get("serviceAddress"))]


COMMAND = CliKind(wire=interactive.COMMAND, name="command", word="cmd", fields=_entrypoint)
NOTEBOOK = CliKind(
    wire=interactive.NOTEBOOK,
    name="notebook",
    word="notebook",
    fields=_address,
    opens_by_token=True,
)
TENSORBOARD = CliKind(
    wire=interactive.TENSORBOARD,
    name="TensorBoard",
    word="tensorboard",
    fields=_address,
    columns=(
        Column("Experiments", "experimentIds", joined),
        Column("Trials", "trialIds", joined),
    ),
)
