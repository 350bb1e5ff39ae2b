"""What all benchmarks take on their command line. With `--smoke` sizes are tiny: does it still run?"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import TypeVar

SMOKE = "--smoke" in sys.argv
_T = TypeVar("_T")


def sized(usual: _T, smoke: _T) -> _T:
    """A size; the second one with `--smoke`."""
    return smoke if SMOKE else usual


def exit_code(within: bool) -> int:
    """1 if a goal was missed; what a smoke run measures says nothing about goals."""
    return int(not within and not SMOKE)


def arguments(description: str | None) -> ArgumentParser:
    parser = ArgumentParser(description=description)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it still run?")
    return parser
