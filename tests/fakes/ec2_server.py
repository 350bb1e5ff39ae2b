"""moto's EC2, SSM, STS and SQS behind `ec2_faults`, in a process of its own on 127.0.0.1."""

from __future__ import annotations

import atexit
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import httpx2

ROOT = Path(__file__).parents[2]
KEYS = {"aws_access_key_id": "AKEXAMPLE", "aws_secret_access_key": "s3cr3t-of-tests"}
REGION = "us-east-1"
UBUNTU_GPU = "ami-1e749f67"
"""One of moto's images with an Ubuntu, for x86_64."""
PARAMETER = "/images/gpu"


class Ec2Server:
    """Seen from a test."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: dict[tuple[str, str], Any] = {}

    def client(self, service: str = "ec2", region: str = REGION) -> Any:
        """Kept: one that is dropped leaves an open connection to the garbage collector, which tells some later test."""
        if (service, region) not in self._clients:
            made = boto3.client(service, endpoint_url=self.url, region_name=region, **KEYS)
            self._clients[service, region] = made
        return self._clients[service, region]

    def rule(self, action: str, **rule: Any) -> None:
        self._post("rule", {"action": action, **rule})

    def hide_young(self, seconds: float) -> None:
        self._post("hide", {"seconds": seconds})

    def reservation(self, **as_answered: str) -> None:
        self._post("reservation", as_answered)

    def console(self, instance_id: str, text: str) -> None:
        self._post("console", {"id": instance_id, "text": text})

    def quota(self, code: str, value: float) -> None:
        self._post("quota", {"code": code, "value": value})

    def shut_down(self, instance_id: str) -> None:
        """The machine ends itself, as by `shutdown -h now`."""
        self._post("shut_down", {"id": instance_id})

    def public_parameter(self, name: str, value: str) -> None:
        """Of SSM, as AWS itself keeps them."""
        self._post("public_parameter", {"name": name, "value": value})

    def price(self, type_: str, region: str, usd: str) -> None:
        """In the price list."""
        self._post("price", {"type": type_, "region": region, "usd": usd})

    def images_are(self, state: str) -> None:
        """Those that exist, and those that are made from now on."""
        self._post("images", {"state": state})

    def mend(self) -> None:
        self._post("mend")

    def reset(self) -> None:
        """No machines, no faults. What a test makes beside these has a name of its own."""
        self._post("reset")

    def calls(self, action: str = "") -> list[dict[str, str]]:
        found = httpx2.get(f"{self.url}/__calls").raise_for_status().json()
        return [call for call in found if action in ("", call["Action"])]

    def permissions(self) -> set[str]:
        """What IAM asked for the calls of Windlass since the last reset."""
        return set(httpx2.get(f"{self.url}/__permissions").raise_for_status().json())

    def _post(self, verb: str, body: dict[str, Any] | None = None) -> None:
        httpx2.post(f"{self.url}/__{verb}", json=body or {}).raise_for_status()


@cache
def ec2_server() -> Ec2Server:
    """The one of this test process, started when it is first needed and ended with it."""
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.fakes.ec2_server"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"},
        stdin=subprocess.PIPE,  # it ends with its parent, however that ends
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(_end, server)
    assert server.stdout is not None
    return Ec2Server(server.stdout.readline().strip())


def _end(server: subprocess.Popen[str]) -> None:
    server.kill()
    server.communicate()


def main() -> None:
    import logging
    import threading

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    from tests.fakes.ec2_faults import Ec2Faults

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    app = Ec2Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
