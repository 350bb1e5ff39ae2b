"""`windlass master check --cloud` on EC2: what is wrong is named with its way out, and nothing is made."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_here
from tests.fakes.ec2_server import KEYS, REGION, UBUNTU_GPU, Ec2Server, ec2_server

SECTION: dict[str, Any] = {
    "type": "aws",
    "region": REGION,
    "zones": [f"{REGION}a"],
    "instance_type": "g4dn.xlarge",
    "image_id": UBUNTU_GPU,
    "max_instances": 3,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ec2Server]:
    server = ec2_server()
    server.reset()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["aws_access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["aws_secret_access_key"])
    yield server
    server.mend()
    assert not server.client().describe_instances()["Reservations"], "nothing was made"


def checked(tmp_path: Path, **changes: Any) -> tuple[int, str]:
    file = tmp_path / "master.yaml"
    pool = {"pool_name": "gpu", "provider": SECTION | changes}
    file.write_text(json.dumps({"resource_pools": [pool]}))
    done = run_here(
        ("master", "check", "--cloud", "-c", str(file), "--data-dir", str(tmp_path / "data")),
        dict(os.environ),
    )
    return done.returncode, done.stdout + done.stderr


def test_a_pool_that_can_buy(tmp_path: Path, server: Ec2Server) -> None:
    code, said = checked(tmp_path, markets=["on_demand", "spot"])
    assert (code, "NOT OK" in said) == (0, False), said
    assert "aws-us-east-1: credentials (arn:aws:" in said
    assert "pool gpu, g4dn.xlarge in us-east-1: ok" in said
    quotas = [
        line.removeprefix("aws-us-east-1: quota ") for line in said.splitlines() if "quota" in line
    ]
    assert quotas == [
        "Running On-Demand G and VT instances (L-DB2E81BA): 64 vCPUs, enough for 16 x g4dn.xlarge: ok",
        "All G and VT Spot Instance Requests (L-3819A6DF): 64 vCPUs, enough for 16 x g4dn.xlarge: ok",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"zones": ["us-east-1z"]},
            "zones: this account has no zone us-east-1z: did you mean us-east-1",
        ),
        (
            {"instance_type": "p9.96xlarge", "instance_slots": 8},
            "instance_type: AWS has no p9.96xlarge in us-east-1",
        ),
        ({"image_id": "ami-0bad"}, "there is no image ami-0bad in us-east-1"),
        ({"subnets": ["subnet-0bad"]}, "subnets: there is no subnet-0bad in us-east-1"),
        ({"reservations": ["cr-0bad"]}, "reservations: there is no active cr-0bad"),
        ({"ssh_key_name": "nobody"}, "correct ssh_key_name of the pool"),
        (
            {"max_instances": 40},
            "40 x g4dn.xlarge of pool gpu need 160 vCPUs: ask AWS for more",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_way_out(
    tmp_path: Path, server: Ec2Server, changes: dict[str, Any], line: str
) -> None:
    code, said = checked(tmp_path, **changes)
    assert code == 1
    assert line in said


def test_a_missing_permission_is_named_with_what_it_is_for(
    tmp_path: Path, server: Ec2Server
) -> None:
    for action in ("DescribeSpotPriceHistory", "RunInstances"):
        server.rule(action, match={"DryRun": "true"}, code="UnauthorizedOperation", status=403)
    code, said = checked(tmp_path)
    assert code == 1
    assert "ec2:DescribeSpotPriceHistory is needed to learn what spot machines cost" in said
    assert "UnauthorizedOperation: injected" in said


def test_what_an_operator_may_do_without_is_said_and_no_problem(
    tmp_path: Path, server: Ec2Server
) -> None:
    code, said = checked(tmp_path)
    assert code == 0, said
    assert "aws-us-east-1: images of machines (det fleet bake): ok" in said
    assert "aws-us-east-1: today's prices (prices.refresh): ok" in said
    server.rule("DescribeSnapshots", code="UnauthorizedOperation", status=403, times=-1)
    server.rule("GetProducts", code="AccessDeniedException", message="no", times=-1)
    code, said = checked(tmp_path)
    assert code == 0, said
    assert "(det fleet bake): not allowed, ec2:DescribeSnapshots is needed to find what" in said
    assert "(prices.refresh): not allowed, pricing:GetProducts is needed to" in said


def test_credentials_that_aws_refuses(tmp_path: Path, server: Ec2Server) -> None:
    server.rule("GetCallerIdentity", code="ExpiredToken", message="It has expired", status=403)
    code, said = checked(tmp_path)
    assert code == 1
    assert "aws-us-east-1: credentials: NOT OK" in said
    assert "renew the master's credentials for AWS" in said
    assert "permissions" not in said


def test_a_cluster_without_clouds(tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text("resource_pools: [{pool_name: a, provider: {type: embedded}}]")
    done = run_here(("master", "check", "--cloud", "-c", str(file)), dict(os.environ))
    assert done.returncode == 0
    assert "no pool of master.yaml buys from a cloud" in done.stdout


class _Portal(BaseHTTPRequestHandler):
    """A proxy that wants people to log in first."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        head = b"<!DOCTYPE html><html><head><title>Access\n denied</title></head>"
        page = head + b"<body>no<br></body></html>"
        self.send_response(403)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_page_for_browsers_is_told_by_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Portal) as portal:
        thread = threading.Thread(target=portal.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{portal.server_port}")
            for name, value in KEYS.items():
                monkeypatch.setenv(name.upper(), value)
            code, said = checked(tmp_path)
        finally:
            portal.shutdown()
            thread.join()
    assert code == 1
    assert "<" not in said
    assert 'a web page answered ("Access denied"), not the cloud: is a proxy in between' in said
    assert len(said.splitlines()) == 2, said
