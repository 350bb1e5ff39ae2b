"""What PBS's commands print, as records. Pure; what cannot be read is left out, not an error.

A record is one job, queue, node or server: its keys are flat (`Resource_List.walltime`), its values text, in both
forms that PBS prints.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Record: TypeAlias = Mapping[str, str]

JOBS, QUEUES, NODES, SERVERS = "Jobs", "Queue", "nodes", "Server"
_HEADS = {
    JOBS: re.compile(r"Job Id: (\S+)$"),
    QUEUES: re.compile(r"Queue:? (\S+)$"),
    NODES: re.compile(r"([^\s:]+)$"),
    SERVERS: re.compile(r"Server:? (\S+)$"),
}
_ABSENT = ("Unknown Job Id", "Job has finished")
"""With the id in one line: a server does not know that job, or it is over."""
_LINE = re.compile(r"\s+([A-Za-z][\w.]*) = ?(.*)$")
_HOST = re.compile(r"\(?([^/()*:]+)")
_SIZE = re.compile(r"(\d+)\s*(k|m|g|t|p)?([bw]?)", re.IGNORECASE)
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_WORD_BYTES = 8


def documents(text: str, kind: str) -> dict[str, Record] | None:
    """Of `-F json`, by id or name. None: it is no JSON, as releases before 23 print of some values."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = document.get(kind, {}) if isinstance(document, dict) else None
    if not isinstance(found, dict):
        return None
    return {name: dict(_flat(one)) for name, one in found.items() if isinstance(one, dict)}


def records(text: str, kind: str) -> dict[str, Record]:
    """Of `qstat -f`, `pbsnodes -av` and the like: indented lines, long ones folded with a tab."""
    found: dict[str, dict[str, str]] = {}
    record: dict[str, str] | None = None
    key = ""
    for line in text.splitlines():
        if (head := _HEADS[kind].match(line)) is not None:
            record, key = found.setdefault(head[1], {}), ""
        elif record is not None and line.startswith("\t") and key:
            record[key] += line[1:]
        elif record is not None and (pair := _LINE.match(line)) is not None:
            key = pair[1]
            record[key] = pair[2]
    return {name: {k: v.strip() for k, v in one.items()} for name, one in found.items()}


def not_told(job_ids: Collection[str], found: Collection[str], said: str) -> Sequence[str]:
    """Of which of these jobs nothing was told: neither found, nor `said` to be unknown on standard error."""
    known = {_number(id_) for id_ in found}
    for line in said.splitlines():
        if any(sign in line for sign in _ABSENT):
            known |= {_number(word) for word in line.split()}
    return [id_ for id_ in job_ids if _number(id_) not in known]


def seconds(text: str) -> float | None:
    """`Fri Nov 20 22:08:50 2026` of a command that ran with TZ=UTC; or seconds since the epoch."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return float(calendar.timegm(time.strptime(text, "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None


def duration_s(text: str) -> float | None:
    """`100:00:00`, `10:00` or `30` (seconds). None: it cannot be read."""
    words = text.strip().split(":")
    if not 1 <= len(words) <= 3 or not all(word.isascii() and word.isdigit() for word in words):
        return None
    total = 0
    for word in words:
        total = total * 60 + int(word)
    return float(total)


def walltime(seconds: float) -> str:
    """As `-l walltime=` takes it, rounded up to whole seconds."""
    whole = -int(-seconds // 1)
    return f"{whole // 3600:02}:{whole % 3600 // 60:02}:{whole % 60:02}"


def mib(text: str) -> int | None:
    """`8gb`, `8388608kb`, `0b`; words (`w`) are eight bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    size = int(found[1]) << 10 * _UNITS[(found[2] or "").lower()]
    return size * (_WORD_BYTES if found[3].lower() == "w" else 1) // 1024**2


def number(text: str) -> int | None:
    text = text.strip()
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else None


def hosts(exec_host: str) -> tuple[str, ...]:
    """`pn1/0*2+pn2/0*2` as names, each once, the first node first."""
    names = [found[1] for part in exec_host.split("+") if (found := _HOST.match(part.strip()))]
    return tuple(dict.fromkeys(names))


def _number(job_id: str) -> str:
    """Without the server, which commands may write differently."""
    return job_id.partition(".")[0]


def _flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for key, one in value.items():
        if isinstance(one, dict):
            yield from _flat(one, f"{before}{key}.")
        elif isinstance(one, list):
            yield f"{before}{key}", ",".join(str(each) for each in one)
        else:
            yield f"{before}{key}", str(one).strip()
