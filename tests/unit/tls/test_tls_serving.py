"""A certificate that changes while it is served."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog.testing

from master.tls.own_authority import RENEW_BEFORE, OwnAuthority, names_here
from master.tls.serving import ServedTls, TlsFiles
from tests.certificates import DAY, Authority, Issued, self_signed
from windlass.base.clock import ManualClock, SystemClock
from windlass.base.errors import InvalidState


def _served(issued: Issued) -> ServedTls:
    return ServedTls(TlsFiles(cert=issued.cert, key=issued.key), SystemClock())


def _shown(tls: ServedTls) -> str:
    return tls.certificate.fingerprints[0]


async def test_a_new_one_is_served_from_the_next_look_on(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = _served(authority.issue())
    before = _shown(tls)
    await tls.look()
    assert _shown(tls) == before
    new = authority.issue(hosts=("other.lab",))
    with structlog.testing.capture_logs() as logged:
        await tls.look()
    assert _shown(tls) == new.fingerprint != before
    assert tls.names() == ("other.lab",)
    assert [event["event"] for event in logged] == ["serving a new certificate"]


async def test_links_that_are_turned_are_seen(tmp_path: Path) -> None:
    """As certbot does it."""
    first, second = self_signed(tmp_path, "first"), self_signed(tmp_path, "second")
    live = Issued(tmp_path / "live.crt", tmp_path / "live.key")
    live.cert.symlink_to(first.cert)
    live.key.symlink_to(first.key)
    tls = _served(live)
    for link, target in ((live.cert, second.cert), (live.key, second.key)):
        link.unlink()
        link.symlink_to(target)
    await tls.look()
    assert _shown(tls) == second.fingerprint


async def test_a_bad_new_one_leaves_the_old_one_and_is_told_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue()
    tls, before = _served(issued), issued.fingerprint
    old_key = issued.key.read_bytes()
    new = authority.issue()
    new_key = new.key.read_bytes()
    issued.key.write_bytes(old_key)  # half of it has come
    with structlog.testing.capture_logs() as logged:
        await tls.look()
        await tls.look()
    assert _shown(tls) == before
    assert [e["log_level"] for e in logged] == ["error"]
    assert f"{issued.key} is not the key of the certificate" in logged[0]["problem"]
    issued.key.write_bytes(new_key + b"\n")
    await tls.look()
    assert _shown(tls) == new.fingerprint


async def test_the_end_is_told_two_weeks_before_once_a_day(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now())
    issued = self_signed(tmp_path)
    tls = ServedTls(TlsFiles(cert=issued.cert, key=issued.key), clock)
    told = []
    for _ in range(4 * 101):  # it ends in 100 days
        with structlog.testing.capture_logs() as logged:
            await tls.look()
        told += [event["event"] for event in logged]
        clock.advance(DAY.total_seconds() / 4)
    assert told[0] == "the certificate expires soon"
    assert 13 <= told.count("the certificate expires soon") <= 15
    assert told[-1].startswith("the certificate has expired")


async def test_an_authority_of_its_own_renews_what_it_signed(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now())
    own = OwnAuthority(tmp_path / "tls", ("localhost", "127.0.0.1"))
    own.ensure(clock.now())
    tls = ServedTls(own.files, clock, renew=own.ensure)
    first, authority = tls.certificate.fingerprints
    await tls.look()
    assert tls.certificate.fingerprints == (first, authority)
    clock.advance((365 * DAY - RENEW_BEFORE + DAY).total_seconds())
    await tls.look()
    assert tls.certificate.fingerprints[0] != first
    assert tls.certificate.fingerprints[1] == authority
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "tls").iterdir()}
    assert modes == {0o600}
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700


def test_it_signs_again_for_a_new_name_and_keeps_the_authority(tmp_path: Path) -> None:
    now = SystemClock().now()
    own = OwnAuthority(tmp_path, names_here("master.lab", ".lab.example.org"))
    own.ensure(now)
    before = own.files.read(now)
    assert {"master.lab", "*.lab.example.org", "localhost", "127.0.0.1"} <= set(before.names)
    again = OwnAuthority(tmp_path, ("localhost",))
    again.ensure(now)
    assert again.files.read(now).fingerprints == before.fingerprints
    more = OwnAuthority(tmp_path, ("new.lab",))
    more.ensure(now)
    after = more.files.read(now)
    assert after.names == ("new.lab",)
    assert after.fingerprints[1] == before.fingerprints[1]


@pytest.mark.parametrize("left", [b"", b"-----BEGIN CERTIFICATE-----\n"])
def test_what_a_power_cut_has_left_of_its_certificate_is_signed_again(
    tmp_path: Path, left: bytes
) -> None:
    now = SystemClock().now()
    own = OwnAuthority(tmp_path, ("localhost",))
    own.ensure(now)
    authority = own.files.read(now).fingerprints[1]
    own.files.cert.write_bytes(left)
    own.ensure(now)
    assert own.files.read(now).fingerprints[1] == authority


@pytest.mark.parametrize("what", ["nothing", "no key", "another key"])
def test_a_damaged_authority_is_told_and_not_replaced(tmp_path: Path, what: str) -> None:
    now = SystemClock().now()
    own = OwnAuthority(tmp_path, ("localhost",))
    own.ensure(now)
    file = tmp_path / "authority.pem"
    certificate = file.read_bytes().partition(b"-----END PRIVATE KEY-----\n")[2]
    other = self_signed(tmp_path).key.read_bytes()
    left = {"nothing": b"", "no key": certificate, "another key": other + certificate}[what]
    file.write_bytes(left)
    OwnAuthority(tmp_path, ("localhost",)).ensure(now)  # it is not needed yet
    with pytest.raises(InvalidState, match=r"authority.pem is damaged: .*from a backup"):
        OwnAuthority(tmp_path, ("new.lab",)).ensure(now)
    assert file.read_bytes() == left


def test_an_authority_that_is_gone_is_told_and_not_replaced(tmp_path: Path) -> None:
    now = SystemClock().now()
    own = OwnAuthority(tmp_path, ("localhost",))
    own.ensure(now)
    (tmp_path / "authority.pem").unlink()
    with pytest.raises(InvalidState, match=r"authority.pem is gone, which signed .*from a backup"):
        own.ensure(now)
    assert not (tmp_path / "authority.pem").exists()
    own.files.cert.unlink()
    own.ensure(now)
    assert len(own.files.read(now).fingerprints) == 2
