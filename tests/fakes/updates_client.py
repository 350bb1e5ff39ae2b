"""A client of `/stream` as programs write it: it keeps a picture, and connects again by what it knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from master.core.updates.ranges import ranges_of

KINDS = {"project": "projects", "model": "models", "modelversion": "modelversions"}
Rows = dict[int, Mapping[str, Any]]


class Picture:
    """What it was told. As the published client, it ignores what comes before its newest synchronisation begins."""

    def __init__(self) -> None:
        self.rows: dict[str, Rows] = {name: {} for name in KINDS.values()}
        self.seen = dict.fromkeys(KINDS.values(), 0)
        """The highest number of each kind."""
        self.syncs = 0
        self.is_complete = False
        self._begun = ""

    def subscription(self, filters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The next one to be sent."""
        self.syncs += 1
        self.is_complete = False
        return {
            "sync_id": str(self.syncs),
            "known": {name: str(ranges_of(rows)) for name, rows in self.rows.items() if rows},
            "subscribe": {
                name: {**wanted, "since": self.seen[name]} for name, wanted in filters.items()
            },
        }

    def take(self, text: str) -> None:
        message = json.loads(text)
        if "sync_id" in message:
            if message["complete"]:
                self.is_complete = message["sync_id"] == str(self.syncs)
            else:
                self._begun = message["sync_id"]
            return
        if self._begun != str(self.syncs):
            return
        ((key, value),) = message.items()
        if key in KINDS:
            name = KINDS[key]
            self.rows[name][value["id"]] = value
            self.seen[name] = max(self.seen[name], value["seq"])
        else:
            name = key.removesuffix("_deleted")
            for span in value.split(",") if value else ():
                first, _, last = span.partition("-")
                for id_ in range(int(first), int(last or first) + 1):
                    self.rows[name].pop(id_, None)
