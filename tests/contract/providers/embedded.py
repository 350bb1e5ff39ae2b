"""The embedded provider in the contract suite, and the stand-in that it starts instead of the real host."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from provisioner.providers.base import LaunchIntent
from provisioner.providers.embedded import EmbeddedProvider, InstanceType
from tests.contract.providers.base import POOL, ProviderCase
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
        self.provider = await self.site.provider()

    def reconfigure(self) -> None:
        self.provider._master_url = "http://127.0.0.1:2"

    def kill(self, instance_id: str) -> None:
        child = self.provider._children[instance_id]
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        child.wait()

    def take_back(self, instance_id: str, seconds: float) -> None:
        (self.site.root / instance_id / "notice").write_text(str(seconds))


@asynccontextmanager
async def embedded_case(tmp_path: Path) -> AsyncIterator[EmbeddedCase]:
    site = Site(tmp_path)
    try:
        yield EmbeddedCase(site, await site.provider())
    finally:
        await site.end()
