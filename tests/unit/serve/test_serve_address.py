"""A master that cannot have its address changes nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from master.app import MasterOptions
from master.config import load
from master.serve import serve


def test_a_second_master_on_the_same_port_leaves_the_first_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        options = MasterOptions(
            config=load(None, overrides={"host": "127.0.0.1", "port": port}),
            data_dir=tmp_path / "data",
            master_url=f"http://127.0.0.1:{port}",
        )
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {port}: .*in use"):
            serve(options)
    assert not options.data_dir.exists()
