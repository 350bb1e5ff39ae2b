"""Where a login may lead: nowhere but to this master."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.webui.redirects import MAX_TARGET, own_path

ORIGINS = {"http://master:8080", "https://windlass.example.org"}


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/proxy/abc/lab?token=t&x=%2F#cell", "/proxy/abc/lab?token=t&x=%2F#cell"),
        ("http://master:8080/det/", "/det/"),
        ("HTTPS://Windlass.Example.org/proxy/a%20b", "/proxy/a%20b"),
        ("/proxy/a?next=http://other", "/proxy/a?next=http://other"),
    ],
)
def test_pages_of_this_master_are_led_to(target: str, path: str) -> None:
    assert own_path(target, ORIGINS) == path


@pytest.mark.parametrize(
    "target",
    [
        *("", "x", "?x", "//evil", "///evil", "////evil", "/\\evil", "\\\\evil", "\\/evil"),
        *(
            "https://evil/",
            "http://master:8081/",
            "https://master:8080/",
            "http://evil@master:8080",
        ),
        *("http://master:8080@evil/", "http://user:pw@master:8080/", "http://master:8080\\@evil"),
        *("http:evil", "http:/evil", "http:///evil", "javascript:alert(1)", "data:text/html,x"),
        *("/\t/evil", "/\n/evil", "\t//evil", " //evil", "/ /evil", "/\x00/evil", "/\x85x"),
        *(
            "http://master:8080//evil",
            "http://[::1",
            "http://master:8080.evil/",
            f"/{'x' * MAX_TARGET}",
        ),
    ],
)
def test_nothing_else_is(target: str) -> None:
    assert own_path(target, ORIGINS) == ""


@given(st.text(alphabet="/\\:@?#.%\t\n ehtpmasrvil8012", max_size=40), st.sampled_from(["", "../"]))
def test_a_browser_stays_on_this_master(target: str, way: str) -> None:
    path = own_path(target, ORIGINS)
    for address in (path, way + path.removeprefix("/")):
        led_to = urlsplit(urljoin("http://master:8080/det/login", address))
        assert (led_to.scheme, led_to.netloc) == ("http", "master:8080")
