"""In a step of Slurm on a node: joins the input and output of srun to the agent there.

usage: python -P -m agent_bootstrap.pipe FOLDER        (of the node, in the directory of its job)
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from agent_bootstrap.channels.pipe_socket import socket_path
from agent_bootstrap.channels.standard_streams import standard_pipe
from agent_bootstrap.channels.streams import SocketStream, join


async def _main(folder: Path) -> None:
    # A site that preempts signals steps: the agent then needs its master most.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with socket_path(folder) as path:
        agent = SocketStream(*await asyncio.open_unix_connection(path))
    await join(await standard_pipe(), agent)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
