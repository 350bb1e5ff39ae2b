"""The words that people write filters and columns with: `started`, `hp.lr`, `metric.validation.loss`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from master.experiments.finding import sources
from master.experiments.finding.columns import COLUMNS, Table
from master.experiments.finding.sources import (
    HYPERPARAMETER,
    METADATA,
    STATISTICS,
    Metric,
    Source,
    short,
)
from windlass.base.errors import InvalidArgument

METRIC = "metric."
_METRIC_GROUPS = ("training.", "validation.")
"""Metrics of these need no `metric.` before them."""


@dataclass(frozen=True, slots=True)
class Word:
    column: str
    meaning: str


_BOTH: Mapping[str, Word] = {
    "state": Word(
        "state", "QUEUED, RUNNING, PAUSED, COMPLETED, ...; ACTIVE is all from QUEUED to RUNNING"
    ),
    "user": Word("user", "the login name of its owner; `me` is you"),
    "label": Word("tags", "one of its labels"),
    "project": Word("projectName", "the name of its project"),
    "workspace": Word("workspaceName", "the name of its workspace"),
    "pool": Word("resourcePool", "its resource pool"),
    "started": Word("startTime", "when it was submitted"),
    "ended": Word("endTime", "when it ended; `none` while it has not"),
    "duration": Word("duration", "from its start to its end or to now: `90m`, or seconds"),
    "best": Word("searcherMetricsVal", "its best value of the searcher's metric"),
    "searcher": Word("searcherType", "the kind of search"),
    "searcher_metric": Word("searcherMetric", "the name of the searcher's metric"),
    "checkpoints": Word("checkpointCount", "how many it has"),
    "checkpoint_size": Word("checkpointSize", "bytes of all of them"),
    "archived": Word("archived", "`true` or `false`; archived ones are hidden otherwise"),
    "project_id": Word("projectId", "the id of its project"),
    "forked_from": Word("forkedFrom", "the id of the experiment it was forked from"),
    "external_id": Word("externalExperimentId", "the id given by a program elsewhere"),
}
WORDS: Mapping[Table, Mapping[str, Word]] = {
    Table.EXPERIMENTS: {
        "id": Word("id", "its id"),
        "name": Word("name", "its name; a word alone is looked for in it"),
        "description": Word("description", "its description"),
        "trials": Word("numTrials", "how many it has"),
        "progress": Word("progress", "from 0 to 1"),
        **_BOTH,
    },
    Table.RUNS: {
        "id": Word("id", "its id, which is the trial's"),
        "name": Word("experimentName", "of its experiment; a word alone is looked for in it"),
        "description": Word("experimentDescription", "of its experiment"),
        "experiment": Word("experimentId", "the id of its experiment"),
        "run": Word("localId", "its name in its project, such as PROJ-7"),
        "progress": Word("experimentProgress", "of its experiment, from 0 to 1"),
        **_BOTH,
    },
}
_ALSO: Mapping[str, str] = {"labels": "label", "tag": "label", "tags": "label"}


def source_of(table: Table, word: str) -> Source:
    """What a word means: without a prefix and if no column, a hyperparameter. Raises InvalidArgument."""
    words, small = WORDS[table], word.lower()
    known = words.get(_ALSO.get(small, small))
    if known is not None or word in COLUMNS[table]:
        return sources.column(table, word if known is None else known.column)
    if word.startswith(HYPERPARAMETER):
        return sources.hyperparameter(table, word)
    if word.startswith(METADATA):
        return sources.metadata(table, word)
    if word.startswith((METRIC, *_METRIC_GROUPS)):
        return _metric(word)
    near = nearest(word, [*words, *_ALSO])
    if near:
        raise InvalidArgument(
            f"unknown word {short(word)}: did you mean {near}? "
            f"A hyperparameter is written {HYPERPARAMETER}{word[:80]}"
        )
    return sources.hyperparameter(table, HYPERPARAMETER + word)


def nearest(word: str, known: list[str], *, cutoff: float = 0.75) -> str:
    """The one that is nearly the same; empty if none is."""
    return next(iter(get_close_matches(word.lower(), known, n=1, cutoff=cutoff)), "")


def _metric(word: str) -> Metric:
    """Of a metric without a statistic, its last value."""
    name = word.removeprefix(METRIC)
    if name.rpartition(".")[2] not in STATISTICS or name.count(".") < 2:
        name += ".last"
    try:
        return sources.metric(name)
    except InvalidArgument:
        raise InvalidArgument(
            f"{short(word)} is no metric: expected {METRIC}<group>.<name>, such as "
            f"{METRIC}validation.loss, with .min, .max or .mean for other values than the last"
        ) from None
