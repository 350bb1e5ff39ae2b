"""A search whose trials the caller adds: the experiment's searcher is `windlass_external`."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Session

POLL_S = 5.0
ENDS = frozenset(f"STATE_{name}" for name in ("COMPLETED", "CANCELED", "ERROR"))


class ExternalSearch:
    """The calls of one experiment. Trials are as `GET /api/v1/trials/{id}` answers them."""

    def __init__(self, session: Session, experiment_id: int) -> None:
        self._session = session
        self._path = f"/api/v1/windlass/experiments/{experiment_id}"

    def add(
        self, key: str, hparams: Mapping[str, Any], *, parent_checkpoint: str | None = None
    ) -> Json:
        """Add a trial. May be repeated with the same key, also after a lost answer: it is the same trial.

        Raises InvalidState once the search is closed, Conflict for a key of a trial with other hyperparameters.
        """
        body: Json = {"key": key, "hparams": dict(hparams)}
        if parent_checkpoint is not None:
            body["parentCheckpoint"] = parent_checkpoint
        return dict(self._session.post(f"{self._path}/trials", body)["trial"])

    def stop(self, trial_id: int) -> None:
        """It saves a checkpoint, ends, and counts as completed."""
        self._session.post(f"/api/v1/windlass/trials/{trial_id}/stop")

    def close(self) -> None:
        """Add no more: the experiment ends when its last trial does."""
        self._session.post(f"{self._path}/searcher/close")

    def ended(self, trial_ids: Collection[int]) -> list[Json]:
        """Those that have ended by now."""
        trials = [self._session.get(f"/api/v1/trials/{id_}")["trial"] for id_ in trial_ids]
        return [dict(trial) for trial in trials if trial["state"] in ENDS]

    def wait(self, trial_ids: Collection[int], *, poll_s: float = POLL_S) -> list[Json]:
        """Block until some of them have ended; these."""
        if not trial_ids:
            raise ValueError("no trial to wait for")
        while not (ended := self.ended(trial_ids)):
            time.sleep(poll_s)
        return ended
