"""What the processes of a local cluster print, readable, and as it comes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

LOOK_S = 0.25
_KNOWN = ("timestamp", "level", "event", "logger", "exception")


class Tail:
    """One log file, which may be emptied under us, and may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def skip_to_last(self, lines: int) -> None:
        """Only so many of what is there now."""
        content = self._path.read_bytes() if self._path.exists() else b""
        kept = b"".join(content.splitlines(keepends=True)[-lines:]) if lines else b""
        self._at = len(content) - len(kept)

    def new_lines(self) -> list[str]:
        """Whole ones that were not returned yet."""
        try:
            with self._path.open("rb") as file:
                if self._path.stat().st_size < self._at:
                    self._at, self._rest = 0, b""
                file.seek(self._at)
                content = file.read()
        except FileNotFoundError:
            return []
        self._at += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


def lines_of(
    logs: Mapping[str, Path],
    *,
    follow: bool,
    tail: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """With several logs each line says of whom it is. `follow`: for ever."""
    tails = {name: Tail(path) for name, path in logs.items()}
    if tail is not None:
        for one in tails.values():
            one.skip_to_last(tail)
    width = max(map(len, tails), default=0) if len(tails) > 1 else 0
    while True:
        for name, one in tails.items():
            prefix = f"{name:<{width}} | " if width else ""
            yield from (prefix + readable(line) for line in one.new_lines())
        if not follow:
            return
        sleep(LOOK_S)


def readable(line: str) -> str:
    """An event as `time level event key=value`; anything else as it is."""
    event: Any = None
    with suppress(ValueError):
        event = json.loads(line)
    if not isinstance(event, dict) or "event" not in event:
        return line
    when = str(event.get("timestamp", ""))[:19].replace("T", " ")
    words = [when, f"{event.get('level', ''):<7}", str(event["event"])]
    words += [f"{key}={_value(value)}" for key, value in event.items() if key not in _KNOWN]
    return " ".join(word for word in words if word) + _trace(event.get("exception"))


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text) if " " in text else text


def _trace(exception: object) -> str:
    return f"\n{exception}" if exception else ""
