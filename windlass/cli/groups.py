"""Command groups that load their code when they are used, know the published aliases, and turn errors into one line."""

from __future__ import annotations

import errno
import importlib
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from windlass.base.errors import WindlassError
from windlass.base.packages import DISTRIBUTION, PACKAGES, ShadowedPackage, refuse_shadowed
from windlass.cli.output.terminal import escaped, for_terminal

if TYPE_CHECKING:
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter

ENTRY_POINT_GROUP = "windlass.commands"
OPERATOR_GROUPS = ("master", "agent", "simulate", "hpc")
"""Commands and groups of commands that need an extra of the same name."""


BOXES = 110
"""Columns of a terminal from which on help is shown in boxes."""


@dataclass(frozen=True, slots=True)
class LazyGroup:
    """A command group by its module below `windlass.cli`, which is loaded when it is called; its line in --help."""

    module: str
    help: str
    alias: str = ""

    def load(self) -> TyperGroup:
        app: typer.Typer = importlib.import_module(f"windlass.cli.{self.module}").app
        group = _as_group(app)
        group.help = self.help
        return group


class MissingExtra(WindlassError):
    """An operators' command whose extra is not installed."""

    code = "missing_extra"


class AliasedGroup(TyperGroup):
    """Sub-commands answer to their aliases too; --help shows each once. The groups of `lazy` are loaded on use."""

    lazy: ClassVar[dict[str, LazyGroup]] = {}
    aliases: ClassVar[dict[str, str]] = {
        "ls": "list",
        "lt": "list-trials",
        "lc": "list-checkpoints",
        "c": "create",
        "rm": "remove",
        "show_ssh_command": "show-ssh-command",
    }

    def list_commands(self, ctx: Context) -> list[str]:
        return [*super().list_commands(ctx), *self.lazy]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        for name, lazy in self.lazy.items():
            if cmd_name in (name, lazy.alias):
                also = f" (also: {lazy.alias})" if lazy.alias else ""
                return Unloaded(name, lazy.help + also, lazy.load)
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in self.aliases:
            found = super().get_command(ctx, self.aliases[cmd_name])
        return found


class OperatorGroup(AliasedGroup):
    """Users' verbs of this package, and after them the operators' verbs of the entry point of the same name."""

    entry_point: ClassVar[str]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        return load_operator_commands(self.entry_point).get(cmd_name)

    def list_commands(self, ctx: Context) -> list[str]:
        own = super().list_commands(ctx)
        try:
            theirs = load_operator_commands(self.entry_point)
        except (MissingExtra, ShadowedPackage) as problem:
            typer.echo(problem.message, err=True)
            return own
        return [*own, *(name for name in theirs if name not in own)]


def command_group(
    help_: str = "",
    cls: type[AliasedGroup] = AliasedGroup,
    context_settings: dict[Any, Any] | None = None,
) -> typer.Typer:
    """A group of commands, also if it has only one. Its help, if it is not in another group, stands in `main`."""
    app = typer.Typer(
        cls=cls,
        no_args_is_help=True,
        add_completion=False,
        help=help_,
        context_settings=context_settings,
    )
    app.callback()(lambda: None)
    return app


class RootGroup(AliasedGroup):
    """`det`. Every known error becomes one line on stderr and exit code 1."""

    aliases: ClassVar[dict[str, str]] = {}
    operators: ClassVar[dict[str, str]] = {}
    """Commands that entry points of the same name bring, and their lines in --help."""

    def list_commands(self, ctx: Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.operators])

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name in self.operators:
            load = partial(_load_operator_command, cmd_name)
            return Unloaded(cmd_name, self.operators[cmd_name], load)
        found = super().get_command(ctx, cmd_name)
        if found is not None and not _is_wide():
            _make_plain(found)
        return found

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        if not _is_wide():
            _make_plain(self)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Context) -> Any:
        try:
            return super().invoke(ctx)
        except WindlassError as error:
            _fail(error.message)
        except typer.BadParameter as error:
            error.message = _in_plain_words(error)
            raise
        except ModuleNotFoundError as missing:
            group = next((a for a in sys.argv[1:] if a in OPERATOR_GROUPS), None)
            if group is None or (missing.name or "").split(".")[0] in PACKAGES:
                raise
            _fail(f"{extra_hint(group)} ({missing.name} is missing)")
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))


class Unloaded(TyperGroup):
    """Stands for a command or a group of them until somebody calls it."""

    def __init__(self, name: str, help_: str, load: Callable[[], Command]) -> None:
        super().__init__(name=name, help=help_)
        self.load = load

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        return self.load().make_context(info_name, args, parent, **extra)


def load_operator_commands(name: str) -> dict[str, Command]:
    """The commands that entry point `name` brings. Raises MissingExtra, ShadowedPackage."""
    from importlib.metadata import entry_points

    refuse_shadowed()
    hint = extra_hint(name)
    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            app = point.load()
        except ModuleNotFoundError as missing:
            what = missing.name or "a package"
            raise MissingExtra(f"{hint} ({what} is missing)") from missing
        group = _as_group(app)
        return dict(group.commands)
    raise MissingExtra(hint)


def _load_operator_command(name: str) -> Command:
    """One that is alone behind its entry point."""
    return load_operator_commands(name)[name]


def extra_hint(name: str) -> str:
    return f"`windlass {name}` needs more packages: pip install '{DISTRIBUTION}[{name}]'"


def _as_group(app: typer.Typer) -> TyperGroup:
    group = typer.main.get_command(app)
    if not _is_wide():
        _make_plain(group)
    if isinstance(group, TyperGroup):
        return group
    single = TyperGroup(name=group.name)
    single.add_command(group)
    return single


def _fail(message: str) -> None:
    typer.echo(for_terminal(f"error: {' '.join(message.split())}", sys.stderr), err=True)
    raise typer.Exit(1)


def _in_plain_words(error: typer.BadParameter) -> str:
    """What is wrong with a number; typer has the words of pydantic."""
    from pydantic import ValidationError

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    problem = error.__cause__.errors(include_url=False)[0]
    found, limits = escaped(str(problem["input"])), problem.get("ctx", {})
    match problem["type"]:
        case "int_parsing" | "int_from_float":
            return f'"{found}" is not a whole number'
        case "float_parsing":
            return f'"{found}" is not a number'
        case "greater_than_equal":
            return f"{found} is too small: the least is {limits['ge']}"
        case "less_than_equal":
            return f"{found} is too large: the most is {limits['le']}"
    return error.message


def _make_plain(command: Command) -> None:
    """The help of a command and of all below it."""
    if isinstance(command, TyperCommand | TyperGroup):
        command.rich_markup_mode = None
        # In a list of commands: else a sentence that is too long for its line is cut.
        command.short_help = command.short_help or _first_sentence(command.help or "")
    for below in getattr(command, "commands", {}).values():
        _make_plain(below)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0]


def _is_wide() -> bool:
    """Whether help fits into boxes: in narrow ones paths and URLs are cut; plain text is wrapped."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns >= BOXES
