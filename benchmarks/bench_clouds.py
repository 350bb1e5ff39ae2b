"""The two clouds under load: from a gang that needs a machine to the first call for it, while a thousand others wait
for theirs to boot, by boto3 and by Google's client; and the REST API while a region answers nothing.

    python -m benchmarks.bench_clouds [--pending 1000] [--arrivals 60] [--calls 1000]

The clouds are the tests' doubles, in processes of their own.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing as mp
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from master.serve import tune_interpreter
from provisioner.money.price_book import open_book
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.provider import AwsProvider
from provisioner.providers.base import LaunchAnswer, LaunchIntent, LimitedCall, Rate
from provisioner.providers.gcp.provider import GcpProvider
from provisioner.providers.gcp.site import GcpSite
from provisioner.types import PoolSettings
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, ec2_server
from tests.fakes.fleet_world import CLUSTER, FleetWorld, a_gang
from tests.fakes.gce import fake_gce
from tests.fakes.pool_machines import aws_machines, gcp_machines
from tests.real_cluster import RealCluster
from windlass.base.clock import SystemClock

ARRIVAL_BUDGET_MS = 150.0
API_BUDGET_MS = 100.0
AT_ONCE = sized(100, 5)
POOL = "gpu"
UNLIMITED: Mapping[LimitedCall, Rate] = {
    api: Rate(burst=1e6, per_s=1e6) for api in (LimitedCall.LAUNCH, LimitedCall.TERMINATE)
}
"""A cloud's own limits are not what is measured."""
PATHS = ("/api/v1/experiments", "/api/v1/windlass/fleet", "/api/v1/resource-pools")


class Timed:
    """Tells when a launch is sent, and how many machines they made."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.called = asyncio.Event()
        self.machines = 0
        client: Any = self._client  # type: ignore[attr-defined]
        send = client.call

        async def call(service: str, operation: str, /, **more: Any) -> Any:
            if operation in ("run_instances", "bulk_insert"):
                self.called.set()
            return await send(service, operation, **more)

        client.call = call

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        return UNLIMITED

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        answer: LaunchAnswer = await super().launch(intent)  # type: ignore[misc]
        self.machines += intent.count
        return answer


class TimedAws(Timed, AwsProvider):
    pass


class TimedGcp(Timed, GcpProvider):
    pass


def serve_gce(ready: Connection) -> None:
    with fake_gce() as fake:
        ready.send(fake.url)
        ready.recv()


@contextmanager
def gce_url() -> Iterator[str]:
    here, there = mp.Pipe()
    process = mp.get_context("spawn").Process(target=serve_gce, args=(there,))
    process.start()
    try:
        yield str(here.recv())
    finally:
        here.send("stop")
        process.join()


def aws_provider(url: str) -> TimedAws:
    options = aws_machines(
        POOL,
        instance_type="g4dn.xlarge",
        instance_slots=1,
        zones=[f"{REGION}a"],
        image_id=UBUNTU_GPU,
        usd_per_hour=1.0,
        boot_time="28h",
    )
    return TimedAws(
        account=AwsAccount(name="aws", region=REGION, endpoint_url=url),
        pools=[options],
        cluster_id=CLUSTER,
        clock=SystemClock(),
        prices=open_book(None),
        user_data=lambda _: "#!/bin/sh\n",
    )


def gcp_provider(url: str) -> TimedGcp:
    options = gcp_machines(
        POOL,
        machine_type="a2-highgpu-1g",
        zones=["us-central1-a"],
        usd_per_hour=1.0,
        boot_time="28h",
    )
    return TimedGcp(
        site=GcpSite(name="gcp", project="acme", region="us-central1", endpoint_url=url),
        pools=[options],
        cluster_id=CLUSTER,
        clock=SystemClock(),
        prices=open_book(None),
        user_data=lambda *_: "#!/bin/sh\n",
    )


async def arrivals_ms(provider: Any, pending: int, arrivals: int) -> list[float]:
    settings = PoolSettings(pool=POOL, max_instances=100_000)
    world = FleetWorld(SystemClock(), [], settings=settings, cloud_name="none")
    await world.start(provider)
    for start in range(0, pending, AT_ONCE):  # the doubles would not answer more in time
        await world.want(*(a_gang(f"first-{start + n}", 1) for n in range(AT_ONCE)))
        while provider.machines < start + AT_ONCE:  # noqa: ASYNC110 - the provider is not told
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.0)
    times = []
    for n in range(arrivals):
        provider.called.clear()
        world.host.waiting[f"next-{n}"] = a_gang(f"next-{n}", 1)
        begun = time.perf_counter()
        world.provisioner.wake()
        await provider.called.wait()
        times.append(1000.0 * (time.perf_counter() - begun))
        await asyncio.sleep(0.05 + 0.013 * (n % 17))  # not in step with the loop
    await world.stop()
    return times


def api_ms(calls: int) -> list[float]:
    """A master whose only region takes every call and answers none."""
    server = ec2_server()
    server.reset()
    section = {"type": "aws", "region": REGION, "instance_type": "g4dn.xlarge", "instance_slots": 1}
    pool = {"pool_name": POOL, "provider": {**section, "image_id": UBUNTU_GPU}}
    work = {
        "entrypoint": "sleep 1",
        "searcher": {"name": "single", "metric": "loss"},
        "resources": {"resource_pool": POOL},
    }
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        model.mkdir()
        with RealCluster(Path(folder) / "cluster", {"resource_pools": [pool]}) as cluster:
            for action in ("DescribeInstances", "RunInstances"):
                server.rule(action, hang=True, times=-1)
            for number in range(20):
                cluster.submit({"name": f"waits {number}", **work}, model)
            times = []
            for number in range(calls):
                start = time.perf_counter()
                cluster.get(PATHS[number % len(PATHS)])
                times.append(1000.0 * (time.perf_counter() - start))
            server.mend()
    return times


def told(what: str, times: Sequence[float], budget_ms: float) -> None:
    p99 = sorted(times)[max(0, round(0.99 * len(times)) - 1)]
    median = statistics.median(times)
    print(f"{what}: p50 {median:.1f} ms, p99 {p99:.1f} ms (budget {budget_ms:.0f} ms)")


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, default=sized(1000, 5))
    parser.add_argument("--arrivals", type=int, default=sized(60, 1))
    parser.add_argument("--calls", type=int, default=sized(1000, 5))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    server = ec2_server()
    os.environ |= {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": KEYS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": KEYS["aws_secret_access_key"],
    }
    print_calibration()
    told("API while a region hangs", api_ms(options.calls), API_BUDGET_MS)
    tune_interpreter()  # as in the master's process
    server.reset()
    server.quota("L-DB2E81BA", 1e6)
    what = f"arrival at {options.pending:,} pending"
    times = asyncio.run(arrivals_ms(aws_provider(server.url), options.pending, options.arrivals))
    told(f"{what}, EC2", times, ARRIVAL_BUDGET_MS)
    with gce_url() as url:
        times = asyncio.run(arrivals_ms(gcp_provider(url), options.pending, options.arrivals))
    told(f"{what}, Compute Engine", times, ARRIVAL_BUDGET_MS)


if __name__ == "__main__":
    main()
