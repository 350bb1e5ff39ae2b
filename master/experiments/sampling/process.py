"""Asking a sampler: in a process of its own, which may fail or take too long without harm to the master."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Protocol

from master.core.searcher.sampler_question import Point
from windlass.base.errors import InvalidConfig, WindlassError
from windlass.base.formats.json_types import JsonObject

TIMEOUT_S = 60.0
"""A question with `NEWEST` results takes a few seconds; the import of Optuna one."""
LAST_WORDS = 2000


class SamplerFailed(WindlassError):
    """It gave no points."""

    code = "sampler"


class Sampler(Protocol):
    async def ask(self, question: JsonObject) -> list[Point]:
        """As many points as the question says. Raises SamplerFailed."""
        ...


class SamplerProcess:
    """Implements `Sampler` by a child process for each question."""

    async def ask(self, question: JsonObject) -> list[Point]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "master.experiments.sampling.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                out, errors = await process.communicate(json.dumps(question).encode())
        except TimeoutError:
            raise SamplerFailed(f"no answer within {TIMEOUT_S:.0f} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode != 0:
            words = errors[-LAST_WORDS:].decode(errors="replace").strip().splitlines()
            raise SamplerFailed(words[-1] if words else f"it ended with {process.returncode}")
        points: list[Point] = json.loads(out)["points"]
        return points


def require_sampler(name: str) -> None:
    """Raises InvalidConfig if this master could not ask it."""
    if name and find_spec("optuna") is None:
        raise InvalidConfig(
            [
                f"<config>.searcher.windlass_sampler: {name} needs Optuna, which this master does not"
                " have: install windlass-cluster[optuna] in its environment, or leave the key out"
            ],
            what="experiment configuration",
        )
