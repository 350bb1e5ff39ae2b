"""What happened to experiments and trials, where trials ran, how busy their machines were, and their code."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.client import Client

_OURS = "/api/v1/windlass"
_PAGE = 1_000
"""Rows that the master sends at once."""


class Histories:
    def __init__(self, client: Client) -> None:
        self._client = client

    def experiment_events(self, experiment_id: int, limit: int | None = None) -> list[Json]:
        """In order; `limit`: the newest ones."""
        return self._newest(f"{_OURS}/experiments/{experiment_id}/events", "events", limit)

    def trial_events(self, trial_id: int, limit: int | None = None) -> list[Json]:
        return self._newest(f"{_OURS}/trials/{trial_id}/events", "events", limit)

    def trial_allocations(self, trial_id: int, limit: int | None = None) -> list[Json]:
        """The runs of a trial, with the machines that they were on."""
        return self._newest(f"{_OURS}/trials/{trial_id}/allocations", "allocations", limit)

    def trial_profile(self, trial_id: int) -> Json:
        return dict(self._client.session.get(f"{_OURS}/trials/{trial_id}/profile", {"points": 2}))

    def find_in_code(self, experiment_id: int, text: str, *, ignore_case: bool) -> Json:
        query = {"text": text, "ignoreCase": ignore_case}
        path = f"{_OURS}/experiments/{experiment_id}/code/find"
        return dict(self._client.session.get(path, query))

    def model_definition(self, experiment_id: int) -> bytes:
        """A gzipped tar; empty without files."""
        found = self._client.session.get(f"/api/v1/experiments/{experiment_id}/model_def")
        return b64decode(found["b64Tgz"])

    def _newest(self, path: str, key: str, limit: int | None) -> list[Json]:
        if limit is None:
            return list(self._client.pages(path, key, {}, size=_PAGE))
        newest = {"orderBy": "ORDER_BY_DESC"}
        return list(self._client.pages(path, key, newest, limit=limit, size=_PAGE))[::-1]
