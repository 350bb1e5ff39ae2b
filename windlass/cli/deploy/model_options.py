"""Options of a command from the fields of a pydantic model: one of text for each field, which the model checks.

So all mistakes are found at once; typer itself would stop at the first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Annotated, Any, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from windlass.base.formats.durations import format_duration
from windlass.base.no_effect import mark_of
from windlass.deploy.cloud.options import Cli

Run = Callable[[typer.Context, dict[str, Any]], None]


def command_of(
    model: type[BaseModel], run: Run, doc: str, only: Collection[str] = ()
) -> Callable[..., None]:
    """A function for typer with an option for each field; `run` is given what was typed, None where nothing was.

    `only`: the fields that the command has. Empty: all.
    """

    def command(ctx: typer.Context, **given: Any) -> None:
        run(ctx, given)

    fields = model.model_fields.items()
    shown = [_parameter(name, field) for name, field in fields if not only or name in only]
    command.__doc__ = doc
    context = inspect.Parameter(
        "ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    shown = [context, *shown]
    command.__annotations__ = {one.name: one.annotation for one in shown}
    vars(command)["__signature__"] = inspect.Signature(shown)
    return command


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    cli = next((item for item in field.metadata if isinstance(item, Cli)), Cli())
    own = f"--{name.replace('_', '-')}"
    if _is_switch(field, cli):
        names = [own, *cli.names] if cli.plain else [f"{own}/--no-{own[2:]}"]
        kind: Any = bool | None
        metavar = None
    else:
        names = [own, *cli.names]
        kind = list[str] | None if get_origin(field.annotation) is tuple else str | None
        metavar = cli.metavar or None
    made = typer.Option(
        *names,
        help=_help(field),
        metavar=metavar,
        hidden=cli.hidden,
        show_default=False,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, made]
    )


def _is_switch(field: FieldInfo, cli: Cli) -> bool:
    return field.annotation is bool and not cli.text


def _help(field: FieldInfo) -> str:
    mark = mark_of(field)
    if mark is not None:
        return f"Without effect: {mark.why}."
    text = field.description or ""
    if field.is_required():
        return text if "Default:" in text else f"{text} Required."
    if field.default in (None, "", (), False) or "Default:" in text or field.annotation is bool:
        return text
    default = field.default
    shown = format_duration(default) if hasattr(default, "total_seconds") else default
    return f"{text} Default: {shown}."
