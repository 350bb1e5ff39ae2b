"""The text that Slurm's commands print, as records. Pure; what cannot be read is left out, not an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from provisioner.batch.base import ForeignJob, task_id, task_name

SQUEUE_FORMAT = "%i|%T|%S|%e|%N|%D|%r|%j"
"""Id, state, start, end, nodes, number of nodes, reason, name. Names of others may contain anything: last."""
QUEUE_FORMAT = "%i|%u|%T|%V|%D|%j"
"""Id, user, state, submission, number of nodes, name."""
SACCT_FORMAT = "JobID,State,ExitCode,Start,End,NodeList,Account,JobName"
NOT_SET = frozenset(
    {"", "N/A", "n/a", "(null)", "None", "NONE", "Unknown", "None assigned", "INVALID"}
)
UNLIMITED = "UNLIMITED"

_KEY = re.compile(r"(?:^|\s)([A-Za-z][A-Za-z0-9_/:]*)=")
_STATE_FLAGS = "*~#%!$@^-+"
_BRACKETS = re.compile(r"^(.*?)\[([^\]]*)\](.*)$")
_MOST_HOSTS = 100_000
MOST_IN_RANGE = 100_000
"""Jobs: no more than `MaxArraySize` may be."""


_TASK = re.compile(r"\d+_(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """One job of squeue or sacct; one of an array is called `task_name`."""

    job_id: str
    name: str
    state: str
    """One word, upper case."""
    reason: str = ""
    start: float | None = None
    end: float | None = None
    nodes: tuple[str, ...] = ()
    account: str = ""
    exit_code: tuple[int, int] | None = None
    """Code and signal, as Slurm prints them."""


def squeue_lines(text: str) -> Iterator[JobLine]:
    """Of `squeue -h -o SQUEUE_FORMAT`, with SLURM_TIME_FORMAT=%s."""
    for line in text.splitlines():
        words = line.split("|", 7)
        if len(words) == 8 and (state := _state(words[1])):
            yield JobLine(
                job_id=words[0].strip(),
                state=state,
                start=seconds(words[2]),
                end=seconds(words[3]),
                nodes=hosts(words[4]),
                reason=words[6].strip(),
                name=named(words[0].strip(), words[7].strip()),
            )


def queue_lines(text: str) -> Iterator[ForeignJob]:
    """Of `squeue -h -o QUEUE_FORMAT`, with SLURM_TIME_FORMAT=%s."""
    for line in text.splitlines():
        words = line.split("|", 5)
        if len(words) == 6 and (state := _state(words[2])):
            yield ForeignJob(
                system="slurm",
                job_id=words[0].strip(),
                user=words[1].strip(),
                waits=state == "PENDING",
                submitted=seconds(words[3]),
                nodes=int(words[4]) if words[4].strip().isdigit() else 0,
                name=words[5].strip(),
            )


def sacct_lines(text: str) -> Iterator[JobLine]:
    """Of `sacct -n -P -X -o SACCT_FORMAT`, with SLURM_TIME_FORMAT=%s. Of a job that ran several times, all runs."""
    for line in text.splitlines():
        words = line.split("|", 7)
        if len(words) == 8 and (state := _state(words[1])):
            yield JobLine(
                job_id=words[0].strip(),
                state=state,
                exit_code=exit_code(words[2]),
                start=seconds(words[3]),
                end=seconds(words[4]),
                nodes=hosts(words[5]),
                account=words[6].strip(),
                name=named(words[0].strip(), words[7].strip()),
            )


def scontrol_job(text: str) -> JobLine | None:
    """Of `scontrol show job -o ID`."""
    for record in records(text):
        if (job_id := record.get("JobId")) and (state := _state(record.get("JobState", ""))):
            reason = record.get("Reason", "")
            if (number := record.get("ArrayTaskId", "")).isdigit():
                job_id = task_id(record.get("ArrayJobId", job_id), int(number))
            return JobLine(
                job_id=job_id,
                name=named(job_id, record.get("JobName", "")),
                state=state,
                reason=""
                if reason in NOT_SET
                else reason.replace("_", " ")
                if "_" in reason
                else reason,
                start=seconds(record.get("StartTime", "")),
                end=seconds(record.get("EndTime", "")),
                nodes=hosts(record.get("NodeList", "")),
                account="" if (given := record.get("Account", "")) in NOT_SET else given,
                exit_code=exit_code(record.get("ExitCode", "")),
            )
    return None


def named(job_id: str, name: str) -> str:
    """What a job is called here, by its id."""
    found = _TASK.fullmatch(job_id)
    return name if found is None else task_name(name, int(found.group(1)))


def task_numbers(text: str) -> Iterator[int]:
    """Of the jobs of an array: `0-3,7`, `1-9:2`, `4-5%2`. Slurm writes no more than about 60 characters of it."""
    for part in text.partition("%")[0].split(","):
        numbers, _, step = part.partition(":")
        first, _, last = numbers.strip().partition("-")
        if first.isdigit() and (last or first).isdigit() and (step or "1").isdigit():
            stop = min(int(last or first), int(first) + MOST_IN_RANGE)
            yield from range(int(first), stop + 1, max(1, int(step or 1)))


def records(text: str) -> Iterator[Mapping[str, str]]:
    """Lines of `scontrol show ... -o`: Key=value, and values may hold blanks."""
    for line in text.splitlines():
        found = list(_KEY.finditer(line))
        ends = [match.start() for match in found[1:]] + [len(line)]
        if found:
            yield {
                match.group(1): line[match.end() : end].strip()
                for match, end in zip(found, ends, strict=True)
            }


def settings(text: str) -> dict[str, str]:
    """Of `scontrol show config`."""
    found = {}
    for line in text.splitlines():
        key, is_one, value = line.partition("=")
        if is_one and " " not in key.strip():
            found[key.strip()] = value.strip()
    return found


def node_state(text: str) -> frozenset[str]:
    """`IDLE+DRAIN*`, `mix#` and the like: the words, upper case, without the flags that stand for others."""
    words = re.split(r"[+]", text.strip())
    return frozenset(word.strip(_STATE_FLAGS).upper() for word in words if word.strip(_STATE_FLAGS))


def gpus(gres: str) -> dict[str, int]:
    """`gpu:tesla:4(S:0-1),gpu:2` as type -> number; the type may be empty. Others than GPUs are left out."""
    found: dict[str, int] = {}
    for entry in re.split(r",(?![^(]*\))", gres):
        words = re.sub(r"\(.*?\)", "", entry).strip().removeprefix("gres/").split(":")
        if words[0] != "gpu":
            continue
        number = words[-1] if words[-1].isdigit() else "1"
        type_ = next((word for word in words[1:] if not word.isdigit()), "")
        found[type_] = found.get(type_, 0) + int(number)
    return found


def hosts(text: str) -> tuple[str, ...]:
    """`n[1-3,07],login` as names, in that order."""
    if text.strip() in NOT_SET:
        return ()
    names: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text.strip()):
        names += _expand(part)
        if len(names) > _MOST_HOSTS:
            return ()
    return tuple(names)


def seconds(text: str) -> float | None:
    """A time that was printed as seconds since the epoch."""
    text = text.strip()
    return float(text) if text.isascii() and text.isdigit() else None


def exit_code(text: str) -> tuple[int, int] | None:
    code, is_one, signal = text.strip().partition(":")
    if not is_one or not code.isdigit() or not signal.isdigit():
        return None
    return int(code), int(signal)


def limit_s(text: str) -> float | None:
    """`2-00:00:00`, `10:00` or `30` (minutes) as seconds. None: no limit, or none that can be read."""
    days, has_days, clock = text.strip().rpartition("-")
    words = clock.split(":")
    if not all(word.isdigit() for word in words) or (has_days and not days.isdigit()):
        return None
    numbers = [int(word) for word in words]
    if has_days:
        hours, minutes, rest = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, rest = numbers
    else:
        hours, minutes, rest = 0, numbers[0], numbers[1] if len(numbers) > 1 else 0
    return float(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + rest)


def walltime(seconds: float) -> str:
    """As `--time` takes it, rounded up to whole seconds."""
    whole = -int(-seconds // 1)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}"


def series(version: str) -> tuple[int, ...]:
    """What speaks the same protocol: 25.11.7 and 25.11.2 are one; 22.05.8 and 22.5.3, too."""
    return tuple(int(word) for word in re.findall(r"\d+", version)[:2])


def _state(text: str) -> str:
    """`CANCELLED by 2001` -> CANCELLED; empty for what is no state."""
    word = text.strip().split(" ")[0].split("+")[0].strip(_STATE_FLAGS)
    return word if word and re.fullmatch(r"[A-Z_]+", word) else ""


def _expand(part: str) -> list[str]:
    found = _BRACKETS.match(part)
    if found is None:
        return [part] if part else []
    before, ranges, after = found.groups()
    names: list[str] = []
    for one in ranges.split(","):
        first, is_range, last = one.partition("-")
        if not first.isdigit() or (is_range and not last.isdigit()):
            return [part]
        for number in range(int(first), int(last if is_range else first) + 1):
            if len(names) > _MOST_HOSTS:
                return names
            names += [f"{before}{number:0{len(first)}}{rest}" for rest in (_expand(after) or [""])]
    return names
