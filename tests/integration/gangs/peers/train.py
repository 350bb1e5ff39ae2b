"""Two containers: the second runs sshd as launchers do, the first logs in, with its key and with others."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from determined import get_cluster_info

SSH = Path("/run/determined/ssh")
PORT = os.environ["DTRAIN_SSH_PORT"]
SSHD = "/usr/sbin/sshd"


def log_in(host: str, *options: str, port: str = PORT) -> str:
    command = ["ssh", "-p", port, "-o", "BatchMode=yes", *options, host, "echo from the peer"]
    told = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    return told.stdout.strip() or told.stderr.strip().splitlines()[-1]


def wait_for(host: str, port: str) -> None:
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionRefusedError:
            time.sleep(0.1)
        else:
            return


def serve() -> int:
    """Until the master ends it with the first container, as it does to what says that it serves others."""
    url = "{DET_MASTER}/api/v1/allocations/{DET_ALLOCATION_ID}/resources/{DET_RESOURCES_ID}/daemon"
    bearer = {"Authorization": f"Bearer {os.environ['DET_SESSION_TOKEN']}"}
    request = urllib.request.Request(  # noqa: S310  (the master, over http)
        url.format(**os.environ), b"{}", bearer, method="POST"
    )
    urllib.request.urlopen(request, timeout=20).close()  # noqa: S310
    return subprocess.run(
        [SSHD, "-p", PORT, "-f", SSH / "sshd_config", "-D"], check=False
    ).returncode


def chief(host: str) -> None:
    wait_for(host, PORT)
    print("own key:", log_in(host), flush=True)
    other = Path("/tmp/other")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    print(
        "other key:",
        log_in(
            host,
            "-o",
            f"IdentityFile={other}",
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
        ),
        flush=True,
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    posing = [
        SSHD,
        "-p",
        port,
        "-f",
        SSH / "sshd_config",
        "-h",
        other,
        "-o",
        f"HostKey={other}",
        "-D",
    ]
    with subprocess.Popen(posing) as server:
        wait_for("127.0.0.1", port)
        print("other host:", log_in("127.0.0.1", port=port), flush=True)
        server.kill()


def main() -> None:
    info = get_cluster_info()
    if info.container_rank:
        sys.exit(serve())
    chief(info.container_addrs[1])


if __name__ == "__main__":
    main()
