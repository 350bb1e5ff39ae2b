"""Live updates: projects, models and their versions as they change, over lost connections too."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from windlass.base.errors import WindlassError
from windlass.sdk.session import Session
from windlass.sdk.wire import Json, error_from_response

Wanted = Mapping[str, Sequence[int]]
"""Lists of ids by their key, such as `workspace_ids`: what is in one of them matches."""
KINDS = {"projects": "project", "models": "model", "modelversions": "modelversion"}
PAUSES_S = (0.5, 1, 2, 4, 8, 15)
"""Between attempts to connect again; each at random half as long again."""
POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class Update:
    kind: str
    """project, model or modelversion."""
    id: int
    row: Json | None
    """As it is now; None: it is gone, or out of sight."""


def watch(
    session: Session,
    *,
    projects: Wanted | None = None,
    models: Wanted | None = None,
    modelversions: Wanted | None = None,
) -> Iterator[Update]:
    """What matches, first and whenever it changes, without an end.

    Lists of projects: `workspace_ids`, `project_ids`; of models: `workspace_ids`, `model_ids`, `user_ids`; of versions:
    `model_ids`, `model_version_ids`, `user_ids`. Raises what the master refuses; connects again for everything else.
    """
    wanted = {"projects": projects, "models": models, "modelversions": modelversions}
    follower = _Follower({kind: lists for kind, lists in wanted.items() if lists is not None})
    failures = 0
    while True:
        try:
            for update in follower.follow(session):
                failures = 0
                yield update
        except InvalidStatus as refused:
            status, body = refused.response.status_code, bytes(refused.response.body or b"")
            if status < 500:
                raise error_from_response(status, body, request="GET /stream") from None
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code == POLICY_VIOLATION:
                raise WindlassError(f"live updates ended: {closed.rcvd.reason}") from None
        except (OSError, TimeoutError, InvalidHandshake):
            pass
        time.sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)] * random.uniform(1, 1.5))
        failures += 1


class _Follower:
    def __init__(self, wanted: Mapping[str, Wanted]) -> None:
        self._wanted = wanted
        self._known: dict[str, set[int]] = {kind: set() for kind in wanted}
        self._since = dict.fromkeys(wanted, 0)

    def follow(self, session: Session) -> Iterator[Update]:
        """One connection."""
        tls = session.tls
        with connect(
            f"ws{session.url.removeprefix('http')}/stream",
            additional_headers={"Authorization": f"Bearer {session.token}"},
            ssl=tls,
            server_hostname=(session.cert_name or None) if tls is not None else None,
            max_size=None,
        ) as socket:
            known = {kind: _ranges(ids) for kind, ids in self._known.items()}
            lists = {k: {**w, "since": self._since[k]} for k, w in self._wanted.items()}
            said = {"sync_id": "1", "known": known, "subscribe": lists}
            socket.send(orjson.dumps(said).decode())
            for text in socket:
                yield from self._updates(orjson.loads(text))
            raise OSError("the master ended the connection")

    def _updates(self, message: Mapping[str, Any]) -> Iterator[Update]:
        for kind, one in KINDS.items():
            if row := message.get(one):
                self._known[kind].add(row["id"])
                self._since[kind] = max(self._since[kind], row["seq"])
                yield Update(one, row["id"], row)
            for span in filter(None, message.get(f"{kind}_deleted", "").split(",")):
                first, _, last = span.partition("-")
                for id_ in range(int(first), int(last or first) + 1):
                    self._known[kind].discard(id_)
                    yield Update(one, id_, None)


def _ranges(ids: set[int]) -> str:
    spans: list[list[int]] = []
    for id_ in sorted(ids):
        if spans and spans[-1][1] == id_ - 1:
            spans[-1][1] = id_
        else:
            spans.append([id_, id_])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
