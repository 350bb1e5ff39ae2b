"""What EC2 costs the master: a list of 5,000 machines by the real boto3, and the memory of a provider that is open.

    python -m benchmarks.bench_aws [--machines 5000]

The server answers with pages of 1,000 that were made before, in another process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from urllib.parse import parse_qs

import psutil

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from provisioner.money.price_book import open_book
from provisioner.providers.aws import tags
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.provider import AwsProvider
from tests.fakes.pool_machines import aws_machines
from windlass.base.clock import SystemClock

PAGE = 1000
MEMORY_BUDGET_MB = 80.0
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


def machine(number: int) -> str:
    said = {
        tags.CLUSTER: "bench",
        tags.PROVIDER: "aws",
        tags.POOL: "gpu",
        tags.INTENT: f"intent-{number}",
        tags.GENERATION: "1",
        tags.CREATED_AT: "1.5",
        tags.MARKET: "spot",
        tags.SLOTS: "8",
        tags.USD_PER_HOUR: "9.5",
        "Name": "determined-ai-agent",
        "managed_by": "windlass",
    }
    items = "".join(f"<item><key>{k}</key><value>{v}</value></item>" for k, v in said.items())
    return (
        f"<item><reservationId>r-{number}</reservationId><instancesSet><item>"
        f"<instanceId>i-{number:017x}</instanceId><imageId>ami-1</imageId>"
        "<instanceState><code>16</code><name>running</name></instanceState>"
        "<instanceType>p4d.24xlarge</instanceType>"
        "<launchTime>2026-01-01T00:00:00.000Z</launchTime>"
        "<placement><availabilityZone>us-east-1a</availabilityZone></placement>"
        f"<privateIpAddress>10.0.0.1</privateIpAddress><tagSet>{items}</tagSet>"
        "</item></instancesSet></item>"
    )


def pages(machines: int) -> list[bytes]:
    made = []
    for start in range(0, machines, PAGE):
        inside = "".join(map(machine, range(start, min(start + PAGE, machines))))
        more = start + PAGE < machines
        token = f"<nextToken>{start // PAGE + 1}</nextToken>" if more else ""
        made.append(
            f'<DescribeInstancesResponse xmlns="{NAMESPACE}"><reservationSet>{inside}'
            f"</reservationSet>{token}</DescribeInstancesResponse>".encode()
        )
    return made


def serve(machines: int, ready: Connection) -> None:
    """The other process."""
    answers = pages(machines)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            if "Action" not in form:  # quotas are asked for in JSON
                self.send_error(400)
                return
            action = form["Action"][0]
            body = f'<{action}Response xmlns="{NAMESPACE}"></{action}Response>'.encode()
            if action == "DescribeInstances":
                body = answers[int(form.get("NextToken", ["0"])[0])]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(server.server_port)
    server.serve_forever()


async def opened(url: str) -> AwsProvider:
    provider = AwsProvider(
        account=AwsAccount(name="aws", region="us-east-1", endpoint_url=url),
        pools=[aws_machines(instance_type="p4d.24xlarge", image_id="ami-1")],
        cluster_id="bench",
        clock=SystemClock(),
        prices=open_book(None),
        user_data=lambda _: "",
    )
    await provider.open()
    return provider


async def list_s(url: str, machines: int) -> tuple[float, float]:
    """Seconds, and of these CPU of this process."""
    provider = await opened(url)
    best = (float("inf"), float("inf"))
    for _ in range(3):
        began, cpu = time.perf_counter(), time.process_time()
        found = await provider.list()
        best = min(best, (time.perf_counter() - began, time.process_time() - cpu))
        assert len(found.instances) == machines
    await provider.close()
    return best


def memory_mb(url: str) -> float:
    """What an open provider adds to a master's process."""
    program = (
        "import asyncio, master.app, psutil\n"
        "from benchmarks.bench_aws import opened\n"
        "def now(): return psutil.Process().memory_info().rss / 1e6\n"
        "before = now()\n"
        f"asyncio.run(opened({url!r}))\n"
        "print(now() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=sized(5_000, 20))
    machines = parser.parse_args().machines
    os.environ |= {"AWS_ACCESS_KEY_ID": "AKEXAMPLE", "AWS_SECRET_ACCESS_KEY": "none"}
    print_calibration()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(machines, there), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}"
    wall, cpu = asyncio.run(list_s(url, machines))
    print(f"a list of {machines:,} machines: {wall:.2f} s, {cpu:.2f} s of CPU, every 10 s")
    added = memory_mb(url)
    print(f"a master with an AWS pool is {added:.0f} MB larger (budget {MEMORY_BUDGET_MB:.0f} MB)")
    print(f"this process: {psutil.Process().memory_info().rss / 1e6:.0f} MB")
    server.terminate()


if __name__ == "__main__":
    main()
