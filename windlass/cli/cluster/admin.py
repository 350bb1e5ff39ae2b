"""`windlass admin`: a cluster from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from windlass.base.errors import Conflict, InvalidArgument, WindlassError
from windlass.base.formats.plurals import counted
from windlass.cli.connect import client_for, for_administrators
from windlass.cli.groups import command_group
from windlass.cli.output.columns import JsonOption
from windlass.cli.output.text import notice, print_json, say
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.cluster_file.current import Ids
    from windlass.sdk.cluster_file.model import ClusterFile
    from windlass.sdk.cluster_file.perform import Passwords
    from windlass.sdk.cluster_file.reading import Source
    from windlass.sdk.cluster_file.state import Step

app = command_group()

PASSES = 3
"""What the master does by itself with a step, such as a role for who creates a workspace, is seen by the next pass."""


class Incomplete(WindlassError):
    """The master refused a step; those after it were not tried."""

    code = "incomplete"


@app.command()
def apply(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Users, groups and what they share (YAML).")
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done. Do nothing.")
    ] = False,
    set_passwords: Annotated[
        bool,
        typer.Option("--set-passwords", help="Set the passwords of users who are there, too."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make users, groups, roles, workspaces, pool bindings, policies and templates as a file says. For administrators.

    What is not in the file stays as it is. Running it again does what is left to do.
    """
    from windlass.sdk.cluster_file.perform import Passwords
    from windlass.sdk.cluster_file.reading import read_file

    read, source = read_file(file)
    run = _Run(
        client_for(ctx),
        read,
        source,
        Passwords(file.parent, os.environ),
        as_json=as_json,
        set_passwords=set_passwords,
    )
    try:
        run.dry() if dry_run else run.apply()
    finally:
        if as_json:
            print_json({"dryRun": dry_run, "steps": run.documents})


class _Run:
    def __init__(
        self,
        client: Client,
        file: ClusterFile,
        source: Source,
        passwords: Passwords,
        *,
        as_json: bool,
        set_passwords: bool,
    ) -> None:
        self._client = client
        self._file = file
        self._source = source
        self._passwords = passwords
        self._as_json = as_json
        self._set_passwords = set_passwords
        self.documents: list[Json] = []

    def dry(self) -> None:
        steps, _ = self._look(self._set_passwords)
        for step in steps:
            self._tell(step, "planned")
        notice(f"Would do {counted(len(steps), 'step')}" if steps else "Nothing to do")

    def apply(self) -> None:
        """Raises Incomplete."""
        from windlass.sdk.cluster_file.perform import Performer

        for number in range(PASSES):
            steps, ids = self._look(self._set_passwords and number == 0)
            if not steps:
                break
            self._require_passwords(steps)
            performer = Performer(self._client, ids, self._passwords)
            for at, step in enumerate(steps):
                try:
                    with for_administrators():
                        notes = performer.perform(step)
                except WindlassError as refused:
                    self._give_up(steps[at:], refused)
                self._tell(step, "done", notes=notes)
        else:
            if self._look(False)[0]:
                raise Conflict(
                    f"after {PASSES} passes the cluster is not as {self._source.name} says: does somebody else change "
                    "it? See --dry-run"
                )
        done = len(self.documents)
        notice(f"Did {counted(done, 'step')}" if done else "Nothing to do")

    def _look(self, set_passwords: bool) -> tuple[list[Step], Ids]:
        from windlass.sdk.cluster_file.current import read_state
        from windlass.sdk.cluster_file.plan import plan, problems

        with for_administrators():
            state, ids = read_state(self._client, self._file)
        self._source.refuse(problems(self._file, state))
        return plan(self._file, state, set_passwords=set_passwords), ids

    def _require_passwords(self, steps: list[Step]) -> None:
        """All of them, before the first step. Raises InvalidConfig."""
        from windlass.sdk.cluster_file.reading import Problem
        from windlass.sdk.cluster_file.state import Kind

        needed = {one.name for one in steps if one.kind is Kind.USER and "password" in one.new()}
        problems: list[Problem] = []
        for name, user in self._file.users.items():
            if user.password is None or name.lower() not in needed:
                continue
            try:
                self._passwords.read(user.password)
            except InvalidArgument as error:
                problems.append(Problem(("users", name, "password"), error.message))
        self._source.refuse(problems)

    def _tell(
        self, step: Step, state: str, *, error: str = "", notes: list[str] | None = None
    ) -> None:
        from windlass.sdk.cluster_file.text import diff, document, title

        self.documents.append(document(step, state, error=error, notes=notes))
        if self._as_json:
            return
        prefix = "" if state in ("done", "planned") else f"{state}: "
        say(f"{prefix}{title(step)}")
        for line in diff(step):
            say(f"    {line}")
        for note in notes or ():
            say(f"    note: {note}")

    def _give_up(self, steps: list[Step], refused: WindlassError) -> NoReturn:
        from windlass.sdk.cluster_file.text import title

        done = len(self.documents)
        first, *rest = steps
        self._tell(first, "failed", error=refused.message)
        for step in rest:
            self._tell(step, "not done")
        raise Incomplete(
            f"{title(first)[2:]}: {refused.message}. {counted(done, 'step')} done, {len(steps)} not: run it again once "
            "that is mended"
        ) from None
