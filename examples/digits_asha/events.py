"""What happened between two looks at the fleet, in words: machines that came, got work, and went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
ASKING = "asking"
"""The state of a machine whose provider has not answered yet."""


class FleetEvents:
    """Collects one line per change. `look` is given the fleet of each snapshot."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[str, Json] = {}
        self._refusals: set[str] = set()

    def look(self, fleet: Json, elapsed_s: float) -> None:
        for blocked in fleet["blockedOffers"]:
            if blocked["reason"] not in self._refusals:
                self._refusals.add(blocked["reason"])
                self._say(elapsed_s, f"refused  {blocked['reason']}")
        instances: Sequence[Json] = fleet["instances"]
        # Until its provider has answered, a machine goes by another id.
        now = {instance["id"]: instance for instance in instances if instance["state"] != ASKING}
        for id_, instance in now.items():
            was = self._known.get(id_)
            kind = f"{instance['offer']['instanceType']} at {instance['usdPerHour']:.0f} USD/h"
            if was is None:
                self._say(elapsed_s, f"launched {id_}, {kind}")
            elif was["activity"] == "booting" and instance["activity"] in ("busy", "idle"):
                self._say(elapsed_s, f"ready    {id_} after {instance['ageS']:.0f} s")
        for id_ in self._known.keys() - now.keys():
            was = self._known[id_]
            why = f": {was['reason']}" if was["reason"] else ""
            self._say(elapsed_s, f"ended    {id_}, cost {was['usd']:.2f} USD{why}")
        self._known = now

    def _say(self, elapsed_s: float, text: str) -> None:
        self.lines.append(f"{elapsed_s:4.0f} s  {text}")
