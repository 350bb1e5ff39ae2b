"""The progress of a pull, from what an engine says of each layer, as a line now and then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LINE_EVERY_S = 5.0
DONE = ("download complete", "pull complete", "already exists")


class PullProgress:
    def __init__(self, name: str) -> None:
        self._name = name
        self._layers: dict[str, tuple[int, int]] = {}
        """(bytes so far, bytes in all); in all 0: not known."""
        self._done: set[str] = set()
        self._said_at: float | None = None

    def line(self, word: Mapping[str, Any], now: float) -> str:
        """What is worth saying after this word; mostly nothing."""
        self._hear(word)
        if self._said_at is None:
            self._said_at = now
        if now - self._said_at < LINE_EVERY_S or not self._layers:
            return ""
        self._said_at = now
        so_far = sum(current for current, _ in self._layers.values())
        total = sum(total for _, total in self._layers.values())
        amount = f", {_mib(so_far)} of {_mib(total)} MiB" if total else ""
        layers = f"{len(self._done)} of {len(self._layers)} layers"
        return f"Pulling image {self._name}: {layers}{amount}"

    def _hear(self, word: Mapping[str, Any]) -> None:
        layer, status = str(word.get("id") or ""), str(word.get("status") or "").lower()
        detail = word.get("progressDetail")
        if not layer or status.startswith("pulling from"):
            return
        current, total = self._layers.get(layer, (0, 0))
        if status.startswith("downloading") and isinstance(detail, Mapping):
            current, total = int(detail.get("current") or 0), int(detail.get("total") or 0)
        if status.startswith(DONE):
            self._done.add(layer)
            current = total
        self._layers[layer] = current, total


def _mib(number: int) -> str:
    return f"{number / 2**20:,.0f}"
