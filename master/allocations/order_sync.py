"""A job's order, as resource managers know it: a changed one is told until it was heard."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rm_backends.base import JobOrder, ResourceManager

log = structlog.get_logger(__name__)


class OrderSync:
    """Of one job. Requests, and the records of a restart, bring the order along: it begins as told."""

    def __init__(self, rm: Callable[[], ResourceManager], order: JobOrder) -> None:
        self._rm = rm
        self._told = order

    def differs(self, order: JobOrder) -> bool:
        """Whether `order` is news."""
        return order != self._told

    async def tell(self, order: JobOrder) -> None:
        """Does nothing if it is known. What fails is still news afterwards."""
        if not self.differs(order):
            return
        try:
            await self._rm().update_job(order)
        except Exception:
            log.exception("a changed order was not told", job=order.job_id)
        else:
            self._told = order
