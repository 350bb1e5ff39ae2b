"""`det experiment compare`: what several experiments do differently, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

from windlass.base.errors import InvalidArgument
from windlass.cli.connect import client_for
from windlass.cli.output.columns import Column as TableColumn
from windlass.cli.output.columns import CsvOption, JsonOption, Table
from windlass.cli.output.terminal import for_terminal
from windlass.cli.output.text import notice, print_json, state_name
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

app = typer.Typer()
_ABSENT = object()


@app.command()
def compare(
    ctx: typer.Context,
    experiment_ids: Annotated[
        list[int], typer.Argument(metavar="EXPERIMENT_ID...", help="At least two.")
    ],
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    code: Annotated[
        bool,
        typer.Option(
            "--code", help="Print the differences of two experiments' model code, as a patch."
        ),
    ] = False,
) -> None:
    """Compare experiments: settings that differ, metrics of their best trials, and costs."""
    ids = list(dict.fromkeys(experiment_ids))
    if len(ids) < 2:
        raise InvalidArgument("Name at least two different experiments")
    client = client_for(ctx)
    if code:
        _print_code(client, ids, as_json=as_json)
        return
    compared = [_compared(client, id_) for id_ in ids]
    for one, settings in zip(compared, _differing([c["settings"] for c in compared]), strict=True):
        one["settings"] = settings
    if as_json:
        print_json(compared)
        return
    names = ["", *(str(id_) for id_ in ids)]
    table = Table(*(TableColumn(name, at) for at, name in enumerate(names)))
    table.print(list(_rows(compared)), as_csv=as_csv)


def _print_code(client: Client, ids: Sequence[int], *, as_json: bool) -> None:
    if len(ids) > 2:
        raise InvalidArgument(f"--code compares two experiments, not {len(ids)}")
    found = client.experiment_difference(ids[0], ids[1])
    if as_json:
        print_json(found)
        return
    for file in found["files"]:
        if file["whyNot"]:
            notice(f"{file['path']}: {file['change']}, not compared: {file['whyNot']}")
        else:
            typer.echo(for_terminal(file["diff"]), nl=False)
    if (left_out := found["differing"] - len(found["files"])) > 0:
        notice(f"{left_out} more files differ")
    if not found["differing"]:
        notice("The model code is the same")


def _compared(client: Client, experiment_id: int) -> Json:
    answer = client.experiment(experiment_id)
    experiment, config = answer["experiment"], answer["config"]
    best = experiment.get("bestTrialId")
    trial = client.trial(int(best)) if best else {}
    validation = trial.get("bestValidation") or {}
    cost = client.experiment_cost(experiment_id) or {}
    return {
        "id": experiment_id,
        "name": experiment.get("name"),
        "state": state_name(experiment.get("state")),
        "trials": experiment.get("numTrials"),
        "bestTrial": best,
        "searcherMetric": config["searcher"].get("metric"),
        "metrics": (validation.get("metrics") or {}).get("avgMetrics") or {},
        "hyperparameters": trial.get("hparams") or {},
        "durationS": experiment.get("duration"),
        "usd": cost.get("usd"),
        "settings": dict(_leaves(config)),
    }


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting by its path; lists are not looked into."""
    if isinstance(value, Mapping) and value:
        for key in sorted(value):
            yield from _leaves(value[key], f"{path}.{key}" if path else str(key))
    elif path:
        yield path, value


def _differing(each: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each experiment the settings that are not the same in all; what one does not have is left out."""
    paths = sorted({path for one in each for path in one})
    differ = [
        path for path in paths if any(_at(one, path) != _at(each[0], path) for one in each[1:])
    ]
    return [{path: one[path] for path in differ if path in one} for one in each]


def _at(settings: Mapping[str, Any], path: str) -> Any:
    return settings.get(path, _ABSENT)


_FACTS = (
    ("name", "name"),
    ("state", "state"),
    ("trials", "trials"),
    ("best trial", "bestTrial"),
    ("duration (s)", "durationS"),
    ("cost (USD)", "usd"),
)


def _rows(compared: Sequence[Json]) -> Iterator[list[Any]]:
    """What there is, what came of it, what differs: a cell for each experiment."""
    for title, key in _FACTS:
        yield [title, *(one[key] for one in compared)]
    for kind, title in (("metrics", "best "), ("hyperparameters", "best "), ("settings", "")):
        flat = [dict(_leaves(one[kind])) if kind != "settings" else one[kind] for one in compared]
        for path in sorted({path for one in flat for path in one}):
            yield [title + path, *(one.get(path) for one in flat)]
