"""Answers about all jobs of a site, read job by job: the same as read at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.batch.slurm.rest import documents
from provisioner.batch.slurm.rest.large import loaded

TRANSCRIPTS = Path(__file__).parents[3] / "transcripts" / "slurm"


def ours(record: Mapping[str, object]) -> Mapping[str, object] | None:
    return record if record.get("user_name") == "me" else None


TEXTS = st.text() | st.sampled_from(['"jobs": [', '\\"jobs":[{', "}, {", "\\", '"'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS.filter(lambda key: key != "jobs"), inner, max_size=3)
    ),
    max_leaves=8,
)
RECORDS = st.builds(
    lambda user, more: {"user_name": user, "more": more}, st.sampled_from(["me", "you"]), VALUES
)


@given(jobs=st.lists(RECORDS), meta=VALUES, after=VALUES, indent=st.sampled_from([None, 0, 2]))
def test_only_what_is_picked_is_left_out(
    jobs: list[Any], meta: object, after: object, indent: int | None
) -> None:
    document = {"meta": meta, "jobs": jobs, "errors": after}
    mine = [job for job in jobs if job["user_name"] == "me"]
    assert loaded(json.dumps(document, indent=indent), ours) == {**document, "jobs": mine}


def running_jobs() -> Iterator[tuple[str, str]]:
    """As every release and version told of one, the job of alice."""
    for case in ("rest-22.05.8", "rest-23.11.11", "rest-25.11.7"):
        for step in json.loads((TRANSCRIPTS / f"{case}.json").read_text())["steps"]:
            if str(step.get("label")).endswith(" running job"):
                yield f"{case} {step['label']}", step["stdout"].rpartition("\nHTTP ")[0]


def test_answers_of_every_version_read_the_same() -> None:
    found = dict(running_jobs())
    assert len(found) == 9
    for name, text in found.items():
        document = json.loads(text)
        mine = loaded(text, partial(documents.owned, user="alice"))
        assert list(documents.jobs(mine)) == list(documents.jobs(document)) != [], name
        assert loaded(text, ours) == {**document, "jobs": []}, name
        seen = list(documents.foreign_jobs(loaded(text, documents.listed), ""))
        assert seen == list(documents.foreign_jobs(document, "")), name
        assert len(seen) == 1, name


def test_a_document_without_jobs_is_read_as_it_is() -> None:
    assert loaded('{"nodes": [1]}', ours) == {"nodes": [1]}


@pytest.mark.parametrize(
    "text",
    [
        '{"jobs": [{"user_name": "me"}',
        '{"jobs": [{"user_name": "me"',
        '{"jobs": [{"user_name": "me"} "x"]}',
        '{"other": {"jobs": [{"user_name": "you"}]}}',
    ],
)
def test_what_is_cut_off_or_not_understood_is_no_document(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loaded(text, ours)
