"""How the master and the agents log: the same events, fields and format."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import structlog

LEVELS = {"trace": "DEBUG", "warn": "WARNING"}
"""Words of configuration files for which Python has others."""
QUIET = ("uvicorn.error", "sqlalchemy", "aiosqlite", "asyncio", "websockets", "apscheduler")
"""Libraries that log each request, or each run of timed work, at INFO, some with its headers."""


ENTRY_PROCESSORS: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
    structlog.processors.format_exc_info,
]
"""What every entry has, whoever wrote it."""


def set_up_logging(level: str, *, color: bool, more: Sequence[logging.Handler] = ()) -> None:
    """Structured events on stderr: readable on a terminal, with `color` or without, JSON lines elsewhere.

    They go to the handlers in `more`, too.
    """
    number = logging.getLevelNamesMapping().get(LEVELS.get(level, level).upper(), logging.INFO)
    renderer: structlog.types.Processor = (
        # Plain tracebacks: others show local variables, and those hold tokens.
        structlog.dev.ConsoleRenderer(
            colors=color, exception_formatter=structlog.dev.plain_traceback
        )
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[*ENTRY_PROCESSORS, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=ENTRY_PROCESSORS,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler, *more]
    root.setLevel(number)
    for noisy in QUIET:
        logging.getLogger(noisy).setLevel(max(number, logging.WARNING))
