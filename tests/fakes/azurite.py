"""Microsoft's emulator of Azure Blob Storage, from npm: `make .azurite` installs it beside the checkout."""

from __future__ import annotations

import base64
import hmac
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

import httpx2

BINARY = Path(__file__).parents[2] / ".azurite" / "node_modules" / ".bin" / "azurite-blob"
MISSING = (
    ""
    if BINARY.exists() and shutil.which("node")
    else "Azurite is not installed: make .make/azurite"
)
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published ones of every emulator."""


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Yields the URL of its account."""
    port = _free_port()
    command = [
        *(str(BINARY), "--blobHost", "127.0.0.1", "--blobPort", str(port)),
        *("--skipApiVersionCheck", "--silent", "--inMemoryPersistence", "--disableTelemetry"),
    ]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "successfully listens" in line:
                    break
            else:
                raise RuntimeError(f"Azurite ended with {process.wait()}")
            yield f"http://127.0.0.1:{port}/{ACCOUNT}"
        finally:
            process.terminate()


def create_container(url: str, name: str) -> None:
    """As the storage's own protocol has it: obstore uses containers, and makes none."""
    headers = {
        "x-ms-date": formatdate(usegmt=True),
        "x-ms-version": "2021-08-06",
        "Content-Length": "0",
    }
    signed = (
        "PUT" + "\n" * 12 + f"x-ms-date:{headers['x-ms-date']}\nx-ms-version:2021-08-06\n"
        f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    )
    digest = hmac.digest(base64.b64decode(KEY), signed.encode(), "sha256")
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    httpx2.put(f"{url}/{name}?restype=container", headers=headers).raise_for_status()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
