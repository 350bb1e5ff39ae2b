"""`det web`: the address that it opens, and how."""

from __future__ import annotations

import stat
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from windlass.cli.web_ui import forwarding, leading_file, login_address

SSH = {"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"}


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ("", "/det/dashboard"),
        ("experiments/7", "/det/experiments/7"),
        ("/det/queue/gpu?x=1&y=2", "/det/queue/gpu?x=1&y=2"),
    ],
)
def test_the_code_is_behind_the_hash_and_the_page_is_named(page: str, path: str) -> None:
    address = urlsplit(login_address("http://m:8080", page, "SECRET"))
    assert address.fragment == "code=SECRET"
    assert parse_qs(address.query) == {"redirect": [path]}
    assert (address.netloc, address.path) == ("m:8080", "/det/login")


@pytest.mark.parametrize("url", ["http://localhost:8080", "http://127.0.0.1:8080"])
def test_on_a_login_node_the_line_that_brings_the_port_is_told(url: str) -> None:
    assert forwarding(url, SSH).startswith("ssh -N -L 8080:")
    assert not forwarding(url, {})
    assert not forwarding("http://master.example:8080", SSH)


def test_others_cannot_read_what_leads_to_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for code in ("FIRST", "SECOND"):
        path = leading_file(f"http://m/det/login?redirect=x&y#code={code}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "x&amp;y#code=SECOND" in text
    assert "FIRST" not in text
