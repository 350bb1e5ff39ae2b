"""moto's S3 on a port of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import httpx2
from moto.server import ThreadedMotoServer

ACCESS_KEY, SECRET_KEY = "AKEXAMPLE", "s3cr3t-of-tests"


@contextmanager
def s3_server() -> Iterator[str]:
    """Yields its URL. All servers of a process have the same buckets: they are gone with this one."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    try:
        yield url
    finally:
        httpx2.post(f"{url}/moto-api/reset")
        server.stop()


def s3_client(url: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
    )


def keys(client: Any, bucket: str) -> list[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", [])]
