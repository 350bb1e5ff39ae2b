"""What commands say: sentences, fields, JSON, and the forms of states, money and shares."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from windlass.base.states import style_of
from windlass.cli.output.terminal import for_terminal

STATE = "State"
"""The header of the column that is coloured."""


def style(state: str) -> str:
    """The colour of a state, by its first word (`enabled, 2 of its slots not`); empty if it has none."""
    found = style_of(state)
    return found.colour if found is not None else ""


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, default=str))


def print_yaml(document: Any) -> None:
    import yaml

    typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def print_fields(fields: Sequence[tuple[str, Any]]) -> None:
    """One thing, a line per field. Fields without a value are left out."""
    shown = [
        (name, for_terminal(cell(value)))
        for name, value in fields
        if value not in (None, "", [], {})
    ]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        coloured = name == STATE.lower() and "NO_COLOR" not in os.environ
        colour = style(value) if coloured else ""
        typer.echo(f"{name:<{width}}  {typer.style(value, fg=colour) if colour else value}")


def say(message: str) -> None:
    typer.echo(for_terminal(message))


def notice(message: str) -> None:
    typer.echo(for_terminal(message, sys.stderr), err=True)


def see_log(tasks: Sequence[str]) -> str:
    """The end of a sentence about something that these tasks do."""
    return "".join(f"\nTo see how it went: det task logs {task}" for task in tasks)


def cell(value: Any) -> str:
    """In a table, or after the name of a field."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict | list):
        return json.dumps(value)
    return str(value)


def state_name(state: str | None) -> str:
    return (state or "").removeprefix("STATE_")


def usd(amount: float) -> str:
    """Money in sentences: as the master writes it, and more digits of what is less than a dollar."""
    return f"{amount:,.2f} USD" if abs(amount) >= 1 else f"{amount:.4f} USD"


def percent(progress: float | None) -> str:
    return "N/A" if progress is None else f"{100 * progress:.1f}%"


def waiting_text(document: dict[str, Any]) -> str:
    """Why an experiment or trial waits, in the master's words; empty if it does not."""
    reasons = document.get("waitingReasons")
    if not isinstance(reasons, list) or not reasons:
        reasons = [document.get("waitingReason")]
    texts = [r.get("text", "") if isinstance(r, dict) else str(r) for r in reasons if r]
    return "; ".join(dict.fromkeys(t for t in texts if t))
