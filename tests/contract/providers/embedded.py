"""The embedded provider in the contract suite, and the stand-in that it starts instead of the real host."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import LaunchIntent, LimitedCall
from provisioner.providers.embedded import EmbeddedProvider, InstanceType
from provisioner.providers.embedded_faults import FAULTS
from provisioner.providers.embedded_queue import SiteQueue
from provisioner.types import Market, Offer
from tests.contract.providers.base import POOL, QUOTA, ProviderCase
from tests.fakes.fleet_world import CLUSTER
from windlass.base.clock import SystemClock
from windlass.base.processes import sweep

STAND_IN = """
import json, os, subprocess, sys, time
directory = sys.argv[-1]
with open("/proc/self/stat") as f:
    started = int(f.read().rpartition(")")[2].split()[19])
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
with open(directory + "/.state", "w") as f:
    json.dump({"pid": os.getpid(), "start_time": started, "boot_id": boot}, f)
os.replace(directory + "/.state", directory + "/host.state")
task = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("started", task.pid, "\\n", "secret" in "".join(os.environ), flush=True)
with open(directory + "/ready", "w") as f:
    f.write(str(task.pid))
time.sleep(600)
"""
"""Writes `host.state`, starts one child, and waits."""
GPU_2 = InstanceType(name="gpu-2", slots=2, usd_per_hour=3.0, boot_s=1.5)
TYPES = (
    replace(GPU_2, zone="a"),
    replace(GPU_2, zone="b", usd_per_hour=3.5, market=Market.SPOT),
)


class Site:
    """Makes embedded providers of one directory, and ends whatever they leave running."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[EmbeddedProvider] = []
        self.tokens: set[str] = set()

    async def provider(
        self,
        root: Path | None = None,
        program: str = STAND_IN,
        types: Sequence[InstanceType] = (GPU_2,),
    ) -> EmbeddedProvider:
        provider = EmbeddedProvider(
            root=root or self.root,
            name=POOL,
            cluster_id=CLUSTER,
            clock=SystemClock(),
            types={POOL: types},
            master_url="http://127.0.0.1:1",
            join_token=self._join_token,
            host_argv=(sys.executable, "-P", "-c", program),
        )
        self.made.append(provider)
        await provider.open()
        return provider

    async def end(self) -> None:
        (self.root / FAULTS).unlink(missing_ok=True)
        SiteQueue(self.root).clear()
        for provider in self.made:
            await provider.open()
            await provider.terminate([x.instance_id for x in (await provider.list()).instances])
            await provider.close()
        for token in self.tokens:
            for number in range(3):
                sweep("WINDLASS_INSTANCE_ID", f"gpu-{token[:8]}-{number}")

    def _join_token(self, intent: LaunchIntent, names: Sequence[str]) -> str:
        self.tokens.add(intent.token)
        return "join-me"


class EmbeddedCase(ProviderCase):
    provider: EmbeddedProvider

    def __init__(self, site: Site, provider: EmbeddedProvider) -> None:
        self.site = site
        self.provider = provider

    async def restart(self) -> None:
        await self.provider.close()
        self.provider = await self.site.provider(types=TYPES)

    def reconfigure(self) -> None:
        self.provider._master_url = "http://127.0.0.1:2"

    def kill(self, instance_id: str) -> None:
        child = self.provider._instances._children[instance_id]
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        child.wait()

    def mend(self) -> None:
        (self.site.root / FAULTS).unlink(missing_ok=True)

    def refuse(self, offer: Offer, kind: BlockKind) -> None:
        quota, number = QUOTA if kind is BlockKind.QUOTA else ("", None)
        for call in ("launch", "answer"):
            self._rule(call, zone=offer.key.zone, kind=kind, quota=quota, number=number)

    def stock(self, offer: Offer, machines: int) -> None:
        self._change(offer, available=machines)

    def queue(self, offer: Offer) -> None:
        self._change(offer, queue_s=3600.0)

    def deliver(self) -> None:
        queue = SiteQueue(self.site.root)
        for launch in list(queue.all()):
            queue.put(launch.model_copy(update={"due": 0.0}))

    def lose_replies(self, times: int) -> None:
        self._rule("launch", how="lose", times=times)

    def drop_requests(self, times: int) -> None:
        self._rule("launch", how="drop", times=times)

    def throttle(self, api: LimitedCall, times: int) -> None:
        self._rule(api, kind=BlockKind.THROTTLED, times=times)

    def fail_lists(self) -> None:
        self._rule("list", kind=BlockKind.TRANSIENT)

    def hide(self, offer: Offer) -> None:
        self._rule("list", how="hide", zone=offer.key.zone)

    def fail_terminates(self, times: int) -> None:
        self._rule("terminate", kind=BlockKind.TRANSIENT, times=times)

    def hang(self, api: LimitedCall) -> None:
        self._rule(api, how="hang")

    def _rule(self, call: str, **what: object) -> None:
        path = self.site.root / FAULTS
        rules = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*rules, {"call": call, **what}]))

    def _change(self, offer: Offer, **what: Any) -> None:
        """As after a change of master.yaml."""
        types = self.provider._types
        types[offer.key] = replace(types[offer.key], **what)

    def no_starts(self, offer: Offer) -> None:
        self._rule("start", kind=BlockKind.CAPACITY)

    def take_back(self, instance_id: str, seconds: float) -> None:
        (self.site.root / instance_id / "notice").write_text(str(seconds))


@asynccontextmanager
async def embedded_case(tmp_path: Path) -> AsyncIterator[EmbeddedCase]:
    site = Site(tmp_path)
    try:
        yield EmbeddedCase(site, await site.provider(types=TYPES))
    finally:
        await site.end()
