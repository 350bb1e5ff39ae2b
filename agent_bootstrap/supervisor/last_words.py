"""Which line of a task's standard error says why it failed. Standard library only; imported when a task has failed."""

from __future__ import annotations

import re

MAX_CAUSE = 300
"""Characters: the exit record has a fixed size."""
_RANK = r"(?:\[rank=\d+\] ?)?"
_TRACE = re.compile(rf"^{_RANK}Traceback \(most recent call last\):$")
_NAMED = re.compile(rf"^{_RANK}([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt))(?::.*)?$")
_UNNAMED = re.compile(rf"^{_RANK}([A-Za-z_][\w.]*)(?:: .*)?$")
_PROGRAM = re.compile(
    r"^\S*python[\d.]*: (?:can't open file .*|No module named .*|Error while finding module .*)$"
    r"|^.{1,100}: (?:command )?not found$|^.{1,200}: (?:No such file or directory|Permission denied)$"
)
_LAUNCHER = re.compile(r"^windlass launch: (?!startup hook)(.+)$")
"""The one line that `windlass.launch` says if it fails itself; of a startup hook, what the hook said is better."""
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "SystemExit")
"""Of programs that only started what failed."""


def cause(tail: bytes) -> str:
    """The last exception, or what the interpreter or the shell could not find; empty if nothing says so.

    Before all that comes what the launcher says at the very end, such as what a notebook's Python lacks.
    """
    named, missing = "", ""
    in_trace = False
    lines = tail.decode(errors="replace").splitlines()
    if lines and (own := _LAUNCHER.match(lines[-1])):
        return own[1][:MAX_CAUSE]
    for line in lines:
        bare = re.sub(rf"^{_RANK}", "", line)
        if _TRACE.match(line):
            in_trace = True
        elif in_trace and bare[:1] in (" ", "\t", ""):
            continue
        elif _NAMED.match(line) or (in_trace and _UNNAMED.match(line)):
            in_trace = False
            if not named or not _is_wrapper(bare):
                named = bare
        else:
            in_trace = False
            if _PROGRAM.match(line):
                missing = line
    return (named or missing)[:MAX_CAUSE]


def _is_wrapper(line: str) -> bool:
    return line.partition(":")[0].rpartition(".")[2] in _WRAPPERS
