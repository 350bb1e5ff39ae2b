"""Jobs of others at the site, for who looks at a queue."""

from __future__ import annotations

import asyncio
from typing import cast

from provisioner.batch.base import BatchSystem, ForeignJob
from rm_backends.batch.others import OtherJobs
from windlass.base.clock import SystemClock


async def test_a_queue_that_does_not_answer_holds_up_no_other() -> None:
    class Site:
        async def in_queue(self, queue: str) -> list[ForeignJob]:
            if queue == "slow":
                await asyncio.Event().wait()
            return [ForeignJob(system="slurm", job_id="9", name=queue, user="eve", waits=True)]

    others = OtherJobs(cast("BatchSystem", Site()), SystemClock())
    waiting = asyncio.create_task(others.of("slow"))
    await asyncio.sleep(0)
    assert [one.name for one in await others.of("quick")] == ["quick"]
    assert not waiting.done()
    waiting.cancel()
