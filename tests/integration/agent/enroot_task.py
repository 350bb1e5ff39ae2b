"""Runs tasks by Enroot as an ordinary user: it refuses agents that are root, as tests mostly are.

usage: python -P -m tests.integration.agent.enroot_task WORK_DIR USER PASSWORD IMAGE:SCRIPT...
Prints a line of JSON for each task: exit code, failure, message, output.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from agent_bootstrap.agent.connection.link import MasterLink
from agent_bootstrap.agent.containers.directory import ContainerDir, ContainerRecord
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.containers.log_lines import read_lines
from agent_bootstrap.agent.logins import Logins
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.registry import RuntimeSetup, open_runtime
from agent_bootstrap.container_options import ContainerOptions, RegistryLogin
from agent_bootstrap.protocol import ContainerSpec, RegistryCredentials

NODE = NodeFacts(master_url="http://master:8080", agent_id="a", cluster_id="c", master_id="m")


class OneLogin(Logins):
    def __init__(self, login: RegistryCredentials) -> None:
        super().__init__(MasterLink())
        self._login = login

    async def of(self, spec: ContainerSpec) -> RegistryCredentials | None:
        return self._login if spec.options.registry_login is not None else None


async def main(work_dir: Path, login: RegistryCredentials, tasks: list[str]) -> None:
    options = parse_options({"master_url": "http://127.0.0.1:1", "work_dir": str(work_dir)})
    runtime = open_runtime("enroot", RuntimeSetup(options=options, logins=OneLogin(login)))
    for number, task in enumerate(tasks):
        image, _, script = task.partition(" ")
        place = ContainerDir(work_dir / f"c{number}")
        name = place.path.name
        place.create(
            ContainerRecord(container_id=name, allocation_id="t.1", task_id="t", boot_id="b")
        )
        spec = ContainerSpec(
            container_id=name,
            allocation_id="t.1",
            task_id="t",
            task_type="COMMAND",
            entrypoint=("sh", "-c", script),
            environment={},
            options=ContainerOptions(
                image=image,
                registry_login=RegistryLogin(reference="t") if "private" in image else None,
            ),
        )
        try:
            await runtime.start(place, spec, NODE)
            ended = await runtime.wait(place)
            told = (ended.exit_code, ended.failure, ended.message)
        except StartRefused as refused:
            told = (None, refused.failure, str(refused))
        lines = read_lines(place.output, 0, complete=True).entries if place.output.exists() else ()
        output = [entry.log for entry in lines if entry.level is None]
        print(json.dumps([*told, output]))
        await runtime.gc(place)


if __name__ == "__main__":
    _, folder, user, password, *wanted = sys.argv
    asyncio.run(main(Path(folder), RegistryCredentials(username=user, password=password), wanted))
