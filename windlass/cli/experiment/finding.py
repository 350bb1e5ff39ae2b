"""Orders and conditions as users write them, in the words of the search for experiments and runs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from windlass.base.errors import InvalidArgument
from windlass.sdk.wire import Json

METRIC = "metric:"
STATISTICS = ("min", "max", "mean", "last")
FilterOption = Annotated[
    str,
    typer.Option(
        "--filter",
        metavar="'CONDITIONS'",
        help="Only those, of all users: 'state = RUNNING and lr < 0.01 and user = me' (docs/filters.md).",
    ),
]
_CONDITION = re.compile(r"\s*([^\s=!<>]+)\s*(!=|<=|>=|=|<|>|\scontains\s)\s*(.*?)\s*")
_LOCATIONS = (
    ("hp.", "RUN_HYPERPARAMETERS"),
    ("metadata.", "RUN_METADATA"),
)


def metric_of(sort: str) -> str:
    """What `--sort [-]metric:NAME` names: GROUP.NAME.STATISTIC; empty for another order.

    A name alone is that of a validation metric: its smallest value, or in descending order its largest.
    """
    name = sort.removeprefix("-")
    if not name.startswith(METRIC):
        return ""
    name = name.removeprefix(METRIC)
    if not name:
        raise InvalidArgument("--sort: name a metric: metric:loss, or descending -metric:accuracy")
    if name.count(".") >= 2 and name.rpartition(".")[2] in STATISTICS:
        return name
    return f"validation.{name}.{'max' if sort.startswith('-') else 'min'}"


def order_of(sort: str) -> str:
    """The order that the master sorts by; empty: the rows are sorted here, by a column of the table."""
    name = metric_of(sort) or sort.removeprefix("-")
    if "." not in name:
        return ""
    return f"{name}={'desc' if sort.startswith('-') else 'asc'}"


def condition(text: str) -> Json:
    """`NAME OP VALUE`, such as `validation.loss.min<0.2`, `hp.lr>=0.1` or `state=COMPLETED`. Raises InvalidArgument."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise InvalidArgument(
            f'--where: expected NAME, one of = != < <= > >= contains, and VALUE, not "{text}"'
        )
    name, operator, value = found.groups()
    location = "VALIDATIONS" if "." in name else "RUN"
    location = next((word for prefix, word in _LOCATIONS if name.startswith(prefix)), location)
    return equal(name, _typed(value), operator=operator.strip(), location=location)


def equal(name: str, value: object, *, operator: str = "=", location: str = "RUN") -> Json:
    is_number = isinstance(value, int | float)
    return {
        "kind": "field",
        "location": f"LOCATION_TYPE_{location}",
        "columnName": name,
        "type": f"COLUMN_TYPE_{'NUMBER' if is_number else 'TEXT'}",
        "operator": operator,
        "value": value,
    }


def filter_text(conditions: Sequence[Json], *, archived: bool) -> str:
    """All of them must hold. `archived`: those that are archived, too."""
    group = {"kind": "group", "conjunction": "and", "children": list(conditions)}
    return json.dumps({"filterGroup": group, "showArchived": archived})


def _typed(value: str) -> object:
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            continue
    return value
