"""Run by the published client's Python: `verbs` lists its commands and their options; `run` runs those of JSON lines.

One process for all: the client takes a second to import. Prints JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Iterator

from determined import cli
from determined.cli import cli as det


def verbs(
    parser: argparse.ArgumentParser, prefix: str = ""
) -> Iterator[tuple[str, list[list[str]]]]:
    """Each with the names of its options."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below and prefix:
        options = [list(a.option_strings) for a in parser._actions if a.option_strings]
        yield prefix.strip(), [names for names in options if "--help" not in names]
    for action in below:
        seen: set[int] = set()
        for name, sub in action.choices.items():
            if id(sub) not in seen:  # further names are aliases
                seen.add(id(sub))
                yield from verbs(sub, f"{prefix} {name}")


def run(words: list[str]) -> dict[str, object]:
    # With bytes below, as some commands write those.
    said, crash, code = io.TextIOWrapper(io.BytesIO(), "utf-8"), "", 0
    sys.stdin = io.StringIO("Secret123\n" * 3)  # to all questions
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            det.main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code)
        except Exception:  # noqa: BLE001 - the test is about what nobody caught
            crash = traceback.format_exc()
    said.seek(0)
    return {"code": code, "said": said.read(), "crash": crash}


if sys.argv[1] == "verbs":
    parser = det.make_parser()
    cli.add_args(parser, det.all_args_description)
    print(json.dumps({verb: names for verb, names in verbs(parser) if not verb.endswith("help")}))
else:
    lines, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    # What the client starts reads nothing, and writes elsewhere.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for line in lines:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)
