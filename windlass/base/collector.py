"""No garbage collection while a decision is made.

A decision makes some objects for every request and drops most of them when it is done; none is part of a cycle. The
collector would look at them again and again meanwhile, for half of the time when 100,000 requests wait, and find
nothing. It is one for the whole process, and pools decide in several threads: it goes on when the last is done.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses = 0
_resume = False
"""Whether it was on before the first of the pauses."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Cyclic garbage is kept until the end of the block, whatever that ends with. May be nested, in any thread."""
    global _pauses, _resume
    with _lock:
        if _pauses == 0:
            _resume = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _resume:
                gc.enable()
