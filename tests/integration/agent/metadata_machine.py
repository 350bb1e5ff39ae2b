"""Plays a machine of EC2 whose tasks are kept from the metadata service; prints what was seen as JSON.

usage: unshare --net python -P metadata_machine.py FOLDER       (root)
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_scripted_master import ScriptedMaster, spec

from agent_bootstrap.agent.daemon import AgentDaemon
from agent_bootstrap.agent.metadata.closing import TABLE
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.container_options import ContainerOptions, OsUser
from agent_bootstrap.protocol import Leaving
from tests.fakes.ec2_metadata import Ec2Metadata, ec2_metadata
from tests.namespaces import METADATA, Namespace, machine

RTMGRP_IPV4_ROUTE = 0x40
"""Of linux/rtnetlink.h."""

TASK = """
import errno, os, socket, sys, urllib.request
def tried(port, device=""):
    with socket.socket() as one:
        one.settimeout(20)
        if device:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        return errno.errorcode.get(one.connect_ex(("169.254.169.254", port)), "connected")
print("service", tried(80), flush=True)
print("bound", *sorted({tried(80, name) for _, name in socket.if_nameindex() if name != "lo"}), flush=True)
print("names", tried(53), flush=True)
print("token", os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"], flush=True)
print("url", os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"], flush=True)
import boto3
print("key", boto3.session.Session().get_credentials().access_key, flush=True)
"""
WAITS = TASK + "\nprint('waits', flush=True)\nsys.stdin.close()\nimport time; time.sleep(600)\n"
THIEF = """
import glob, sys
def content(path):
    try:
        return open(path, "rb").read()
    except OSError:
        return b""
seen = b"".join(map(content, [*glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/cmdline")]))
print("sees", ("lo" + "ng~").encode() in seen, flush=True)
print("reads", content(sys.argv[1]), flush=True)
"""
ID = "i-0123"


def listening() -> socket.socket:
    return socket.create_server((METADATA, 80), backlog=64)


def connects() -> str:
    with socket.socket() as one:
        one.settimeout(20)
        return errno.errorcode.get(one.connect_ex((METADATA, 80)), "connected")


def asked(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"Authorization": token})  # noqa: S310
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=20
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def by_a_late_device() -> str:
    """How a task's packet that is bound to a device fares that comes up while the task runs."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as routes:
        routes.bind((0, RTMGRP_IPV4_ROUTE))
        routes.settimeout(20)
        ip("link", "add", "late", "type", "veth", "peer", "name", "late-peer")
        ip("address", "add", "10.99.0.1/24", "dev", "late")
        ip("link", "set", "late-peer", "up")
        ip("link", "set", "late", "up")
        while " dev late " not in ip("route", "show", "table", str(TABLE)):
            routes.recv(65536)  # a route was added, by the agent or by the kernel
    child = os.fork()
    if child == 0:
        os.setuid(65530)
        with socket.socket() as one:
            one.settimeout(20)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"late")
            os._exit(one.connect_ex((METADATA, 80)))
    return errno.errorcode.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "connected")


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Machine:
    def __init__(self, folder: Path, metadata: Ec2Metadata, container: Namespace) -> None:
        self.folder = folder
        self.metadata = metadata
        self.container = container
        self.master = ScriptedMaster()
        self.seen: dict[str, Any] = {}

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        options = parse_options(
            {
                "master_url": "http://127.0.0.1:8080",
                "agent_id": "a",
                "artificial_slots": 4,
                "work_dir": str(self.folder / "work"),
                "metadata_service": f"http://{METADATA}",
                "task_metadata": "storage",
                "container_runtime": "process",
            }
        )
        task = asyncio.create_task(AgentDaemon(options, connect=self.master.connect).run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def start(self, name: str, program: str, uid: int, *more: str) -> None:
        user = OsUser(uid=uid, gid=uid, user="root" if uid == 0 else f"u{uid}", group=f"g{uid}")
        options = ContainerOptions(os_user=user, network="bridge")
        await self.master.start(spec(name, "{python}", "-c", program, *more, options=options))

    async def run(self, name: str, program: str, uid: int, *more: str) -> dict[str, str]:
        await self.start(name, program, uid, *more)
        await self.master.exit_of(name)
        return self.said(name)

    def said(self, name: str) -> dict[str, str]:
        lines = self.master.text(name)
        return {k: v for k, _, v in (line.partition(" ") for line in lines)} | {
            "all": "\n".join(lines)
        }

    async def play(self) -> None:
        seen = self.seen
        async with self.agent():
            await self.start("long", WAITS, 65530)
            await self.master.until_line("long", "waits")
            long = seen["long"] = self.said("long")
            seen["late"] = await asyncio.to_thread(by_a_late_device)
            seen["of root, before"] = connects()
            seen["bridged"] = await asyncio.to_thread(self.container.run, connects)
            seen["bridged, by its token"] = await self.from_container(long["url"], long["token"])
            secret = self.folder / "work/containers/long/rundet/storage-token"
            seen["thief"] = await self.run("thief", THIEF, 65531, str(secret))
            forged = long["token"].replace("long", "thief")
            seen["forged"] = await asyncio.to_thread(asked, long["url"], forged)
            seen["root"] = await self.run("root", TASK, 0)
            seen["of root, after"] = connects()
            self.metadata.interrupt(ID, 120)
            await self.master.until(lambda: any(isinstance(x, Leaving) for x in self.master.said))
        async with self.agent():
            await self.master.until(lambda: len(self.master.hellos) > 1)
            seen["of root, next agent"] = connects()
            url, token = long["url"], long["token"]
            seen["next agent"] = await asyncio.to_thread(asked, url, token)
            await self.master.kill("long")
            await self.master.exit_of("long")
            seen["ended"] = await asyncio.to_thread(asked, url, token)
        await self.master.close()

    async def from_container(self, url: str, token: str) -> int:
        return await asyncio.to_thread(self.container.run, lambda: asked(url, token))


def main() -> None:
    os.environ.pop("AWS_ACCESS_KEY_ID", None)
    with machine() as (cloud, container), ec2_metadata(cloud.run(listening)) as metadata:
        metadata.only = ID
        metadata.add_role(ID, "agents")
        played = Machine(Path(sys.argv[1]), metadata, container)
        asyncio.run(asyncio.wait_for(played.play(), 100))
    sys.stdout.write(json.dumps(played.seen))


if __name__ == "__main__":
    main()
