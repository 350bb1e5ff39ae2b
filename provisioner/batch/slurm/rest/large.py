"""Answers of slurmrestd about all jobs of a site: 4 to 14 KB each, so a hundred MB where ten thousand wait.

As one document that would be ten times as much memory, and more than a second in which nothing else runs. Read job by
job, what is not wanted is dropped at once, and other threads get their turns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from provisioner.batch.slurm.rest.documents import Json, is_object

Pick: TypeAlias = Callable[[Mapping[str, Json]], Mapping[str, Json] | None]
"""What is kept of one job; None: nothing."""

_JOBS = re.compile(r'"jobs"\s*:\s*\[')
"""A quotation mark within a text has a backslash before it: this is the key."""
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


def loaded(text: str, pick: Pick | None = None) -> Json:
    """The document, with what `pick` keeps of its jobs. Raises ValueError. Blocks."""
    found = _JOBS.search(text) if pick is not None else None
    if pick is None or found is None:
        return json.loads(text)
    kept: list[Mapping[str, Json]] = []
    at = _after(text, found.end())
    while text.startswith("{", at):
        record, end = _DECODER.raw_decode(text, at)
        if (picked := pick(record)) is not None:
            kept.append(picked)
        at = _after(text, end)
    document = json.loads(text[: found.end()] + text[at:])
    if is_object(document) and document.get("jobs") == []:
        return {**document, "jobs": kept}
    raise ValueError("its jobs are not at the top of the document")


def _after(text: str, at: int) -> int:
    """Where the next record begins, or the list ends."""
    found = _BETWEEN.match(text, at)
    return found.end() if found is not None else at
