"""Which certificates the master serves, and what it says of the others."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from master.config import load
from master.tls.certificate import read_certificate
from master.tls.opening import certificate_findings
from tests.certificates import DAY, Authority, Issued, private_pem, self_signed
from windlass.base.errors import InvalidConfig

NOW = datetime.now(UTC)


def test_what_a_good_one_says(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue(hosts=("master.lab", "10.0.0.7"), with_root=True)
    found = read_certificate(issued.cert, issued.key, None, NOW)
    assert found.names == ("master.lab", "10.0.0.7")
    assert found.fingerprints == (issued.fingerprint, authority.fingerprint)
    assert found.pem == issued.pem
    assert found.context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_further_authority_is_for_others_to_trust_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue()
    found = read_certificate(issued.cert, issued.key, authority.root, NOW)
    assert found.pem == issued.pem + authority.root.read_text()
    assert found.fingerprints == (issued.fingerprint,)


def _other_key(issued: Issued, _: Authority) -> None:
    issued.key.write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1())))


def _encrypted(issued: Issued, _: Authority) -> None:
    issued.key.write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1()), b"secret"))


def _expired(_: Issued, authority: Authority) -> None:
    authority.issue(valid=(NOW - 2 * DAY, NOW - DAY))


def _not_yet(_: Issued, authority: Authority) -> None:
    authority.issue(valid=(NOW + DAY, NOW + 2 * DAY))


def _wrong_order(issued: Issued, authority: Authority) -> None:
    issued.cert.write_text(authority.root.read_text() + issued.pem)


def _swapped_files(issued: Issued, _: Authority) -> None:
    cert, key = issued.cert.read_bytes(), issued.key.read_bytes()
    issued.cert.write_bytes(key)
    issued.key.write_bytes(cert)


def _damaged(issued: Issued, _: Authority) -> None:
    text = issued.pem
    issued.cert.write_text(text[:60] + "%%%%" + text[64:])


def _damaged_key(issued: Issued, _: Authority) -> None:
    issued.key.write_text("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")


def _key_as_folder(issued: Issued, _: Authority) -> None:
    issued.key.unlink()
    issued.key.mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda issued, _: issued.cert.unlink(), "security.tls.cert: cannot read {cert}: No such"),
        (lambda issued, _: issued.key.unlink(), "security.tls.key: cannot read {key}: No such"),
        (_key_as_folder, "security.tls.key: cannot read {key}: Is a directory"),
        (lambda issued, _: issued.cert.write_text(""), "{cert} holds no certificate: name a file"),
        (_swapped_files, "security.tls.cert: {cert} holds a private key: name a file"),
        (
            lambda issued, _: issued.key.write_text(issued.pem),
            "{key} holds a certificate: name a file with the private key",
        ),
        (_other_key, "security.tls.key: {key} is not the key of the certificate in {cert}"),
        (_encrypted, "security.tls.key: the key in {key} is encrypted"),
        (_expired, "security.tls.cert: the certificate in {cert} has expired on "),
        (_not_yet, "security.tls.cert: the certificate in {cert} is valid only from "),
        (_wrong_order, "own certificate is number 2 in {cert}: put it first"),
        (_damaged, "security.tls.cert: a certificate in {cert} is damaged"),
        (_damaged_key, "security.tls.key: the key in {key} cannot be read"),
    ],
)
def test_a_bad_one_is_refused_in_words(
    tmp_path: Path, spoil: Callable[[Issued, Authority], object], words: str
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue()
    spoil(issued, authority)
    with pytest.raises(InvalidConfig) as refused:
        read_certificate(issued.cert, issued.key, None, NOW)
    (problem,) = refused.value.problems
    assert words.format(cert=issued.cert, key=issued.key) in problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_one_that_may_not_be_read(tmp_path: Path) -> None:
    issued = self_signed(tmp_path)
    issued.key.chmod(0)
    with pytest.raises(InvalidConfig, match="Permission denied: the master's user must be able"):
        read_certificate(issued.cert, issued.key, None, NOW)


def test_the_check_of_a_data_folder_looks_at_it(tmp_path: Path) -> None:
    issued = self_signed(tmp_path)
    keys = {"security.tls.cert": str(issued.cert), "security.tls.key": str(issued.key)}
    config = load(None, overrides=keys)
    assert [f.problems for f in certificate_findings(config, tmp_path, NOW)] == [()]
    (late,) = certificate_findings(config, tmp_path, NOW + 1000 * DAY)
    assert "has expired" in late.problems[0]
    assert certificate_findings(load(None), tmp_path, NOW) == []
