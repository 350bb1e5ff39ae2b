"""qsub's command line: what we set, and what operators and users may add. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from provisioner.batch.base import SCRIPT_NAME, JobSpec
from provisioner.batch.pbs.text import duration_s, walltime

LEAST_IMPORTANT = 1024
"""`-p` takes -1024 to 1023."""

_OURS = frozenset("cCefGhIjJkNoqrRSuvVXz")
"""Letters that would contradict what we set, or keep qsub from submitting."""
_OUR_ATTRIBUTES = frozenset(
    {
        "argument_list",
        "array_indices_submitted",
        "block",
        "checkpoint",
        "error_path",
        "executable",
        "hold_types",
        "interactive",
        "job_name",
        "join_path",
        "keep_files",
        "output_path",
        "rerunable",
        "resource_list",
        "sandbox",
        "shell_path_list",
        "stagein",
        "stageout",
        "umask",
        "user_list",
        "variable_list",
    }
)
"""Of -W, which takes every attribute of a job: those of our letters, too. PBS reads names in any case, and
stages files from and to the login node as whoever submits: of the master, if that does."""
_OUR_RESOURCES = frozenset({"nodes", "nodect", "ncpus", "ngpus", "mpiprocs", "ompthreads"})
"""Of -l, outside of select."""
_FLAGS = frozenset("fhIVXz")
"""Letters without a value."""
_OUR_CHUNK = frozenset({"ncpus", "ngpus", "mpiprocs", "ompthreads"})
_SHARING = frozenset({"excl", "exclhost", "shared"})
_INSTEAD = {
    "-q": "name the resource pool of that queue in resources.resource_pool",
    "-V": "set environment.environment_variables",
    "-v": "set environment.environment_variables: PBS shows every user what -v names",
    "-l nodes": "set resources.slots_per_trial and pbs.slots_per_node",
    "-l ngpus": "set resources.slots_per_trial and pbs.slots_per_node",
    "-l ncpus": "set cpus_per_slot of the pool",
}


@dataclass(frozen=True, slots=True)
class _Option:
    """One argument, as qsub would read it."""

    letter: str
    value: str

    @property
    def words(self) -> tuple[str, ...]:
        return (f"-{self.letter}",) if self.letter in _FLAGS else (f"-{self.letter}", self.value)


def problems(arguments: Sequence[str]) -> list[str]:
    """Why these are not given to qsub, one line each; empty if they are."""
    found = []
    for argument in arguments:
        option = _parse(argument)
        if option is None:
            found.append(
                f'"{argument}" is no option of qsub: write one option per item, such as -l walltime=1:00:00'
            )
            continue
        for name in _contradicted(option):
            instead = _INSTEAD.get(name) or "remove it"
            found.append(f'"{argument}": PBS option {name} is not configurable: {instead}')
        pairs = _pairs(option.value) if option.letter == "l" else ()
        if any(name.lower() == "walltime" and not _is_time(value) for name, value in pairs):
            found.append(
                f'"{argument}" is no walltime of PBS: write seconds, or hours, minutes and seconds, such as '
                "-l walltime=24:00:00"
            )
    return found


def without_effect(arguments: Sequence[str]) -> Iterator[str]:
    """One line for each of them of which a part is not taken: what we set ourselves of chunks and their places."""
    for argument in arguments:
        option = _parse(argument)
        if option is None or option.letter != "l":
            continue
        for name, value in _pairs(option.value):
            dropped = _DROPPED.get(name.lower(), lambda _: [])(value)
            if dropped:
                verb = "has" if len(dropped) == 1 else "have"
                yield (
                    f'"{argument}": {", ".join(dropped)} {verb} no effect: resources.slots_per_trial, '
                    "pbs.slots_per_node and cpus_per_slot of the pool say how many nodes, GPUs and CPUs a job gets"
                )


def _dropped_of_select(value: str) -> list[str]:
    first, *more = value.split("+")
    number, *pairs = first.split(":") if first[:1].isdigit() else ["1", *first.split(":")]
    ours = [pair for pair in pairs if _pair(pair)[0].lower() in _OUR_CHUNK]
    return [*([] if number == "1" else [number]), *ours, *(f"+{chunk}" for chunk in more)]


def _dropped_of_place(value: str) -> list[str]:
    return [word for word in value.split(":") if word != "scatter" and not _is_kept_place(word)]


def _is_kept_place(word: str) -> bool:
    return word in _SHARING or word.startswith("group=")


_DROPPED = {"select": _dropped_of_select, "place": _dropped_of_place}


def _is_time(text: str) -> bool:
    """PBS takes fractions of seconds, too."""
    return duration_s(text.strip("\"'").partition(".")[0]) is not None


def wanted_walltime_s(arguments: Sequence[str]) -> float | None:
    """What `-l walltime=` asks for; the last one counts. None: none of them does."""
    wanted = None
    for option in _options(arguments, "l"):
        for name, value in _pairs(option.value):
            if name.lower() == "walltime":
                wanted = duration_s(value)
    return wanted


def qsub_line(job: JobSpec) -> list[str]:
    """With the script as a command: in the script form a login shell stands above it."""
    kept = [one for one in _all(job.arguments) if one.letter not in "lW"]
    attributes = ["umask=077", *(o.value for o in _options(job.arguments, "W"))]
    line = ["qsub", "-N", job.name, "-r", "n", "-k", "oed", "-j", "oe"]
    line += ["-o", f"{job.directory}/batch.log", "-W", ",".join(attributes)]
    line += ["-l", f"select={_select(job)}", "-l", f"place={_place(job)}"]
    if job.walltime_s is not None:
        line += ["-l", f"walltime={walltime(job.walltime_s)}"]
    for resource in _others(job.arguments):
        line += ["-l", resource]
    if job.queue:
        line += ["-q", job.queue]
    if job.project and not any(one.letter == "P" for one in kept):
        line += ["-P", job.project]
    if job.nice and not any(one.letter == "p" for one in kept):
        line += ["-p", str(-min(job.nice, LEAST_IMPORTANT))]
    for option in kept:
        line += option.words
    return [*line, "--", "/bin/sh", str(job.directory / SCRIPT_NAME)]


def _select(job: JobSpec) -> str:
    """Of the user's own select only what we do not set is taken: the first chunk's, for all."""
    chunk = {"ncpus": str(job.cpus_per_node or 1), "mpiprocs": "1"}
    if job.gpus_per_node:
        chunk["ngpus"] = str(job.gpus_per_node)
    if job.memory_mib_per_node is not None:
        chunk["mem"] = f"{job.memory_mib_per_node}mb"
    for option in _options(job.arguments, "l"):
        for name, value in _pairs(option.value):
            if name.lower() == "select":
                first = value.split("+")[0].split(":")
                given = {k.lower(): v for k, v in map(_pair, first) if v}
                chunk |= {key: text for key, text in given.items() if key not in _OUR_CHUNK}
    return ":".join([str(job.nodes), *(f"{key}={value}" for key, value in chunk.items())])


def _place(job: JobSpec) -> str:
    """One node for each chunk; sharing and grouping as the user says."""
    words = ["scatter"]
    for option in _options(job.arguments, "l"):
        for name, value in _pairs(option.value):
            if name.lower() == "place":
                words += filter(_is_kept_place, value.split(":"))
    return ":".join(dict.fromkeys(words))


def _others(arguments: Sequence[str]) -> Iterator[str]:
    for option in _options(arguments, "l"):
        for name, value in _pairs(option.value):
            if name.lower() not in ("select", "place"):
                yield f"{name}={value}"


def _contradicted(option: _Option) -> Iterator[str]:
    if option.letter in _OURS:
        yield f"-{option.letter}"
    ours = {"W": _OUR_ATTRIBUTES, "l": _OUR_RESOURCES}.get(option.letter, frozenset())
    # In quotes, too: how PBS pairs them differs from release to release.
    names = (_pair(word)[0].strip("\"'").lower() for word in option.value.split(","))
    yield from (f"-{option.letter} {name}" for name in names if name in ours)


def _options(arguments: Sequence[str], letter: str) -> Iterator[_Option]:
    return (option for option in _all(arguments) if option.letter == letter)


def _all(arguments: Sequence[str]) -> Iterator[_Option]:
    return (option for argument in arguments if (option := _parse(argument)) is not None)


def _parse(argument: str) -> _Option | None:
    """`-l walltime=1:00:00`, `-lwalltime=1:00:00`, `-h`."""
    text = argument.strip()
    letter, value = text[1:2], text[2:].strip()
    if not text.startswith("-") or not letter.isalpha() or "\0" in argument or "\n" in argument:
        return None
    if bool(value) == (letter in _FLAGS):
        return None
    return _Option(letter, value)


def _pairs(value: str) -> Iterator[tuple[str, str]]:
    """`a=1,b=2`; commas in quotes do not count."""
    word, quote = "", ""
    for letter in [*value, ","]:
        if letter == "," and not quote:
            if word.strip():
                yield _pair(word.strip())
            word = ""
            continue
        if letter in "\"'" and quote in ("", letter):
            quote = "" if quote else letter
        word += letter
    if quote:
        yield _pair(word.removesuffix(",").strip())


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name.strip(), value.strip()
