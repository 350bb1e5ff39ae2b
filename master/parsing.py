"""Where what users send is parsed and checked: in threads of its own.

Passwords, blobs and the store do not wait for a large configuration, and it does not wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

THREADS = 2
"""Parsing holds the interpreter: more threads would only take turns more often."""
_THREADS = ThreadPoolExecutor(THREADS, "parsing")

P = ParamSpec("P")
T = TypeVar("T")


async def in_parsing_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`."""
    work = partial(copy_context().run, call, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
