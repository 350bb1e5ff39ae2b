from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

import pytest

from tests.certificates import Authority, self_signed
from windlass.base.errors import InvalidArgument
from windlass.base.tls.fingerprints import (
    certificates_in,
    fingerprint_of,
    labelled,
    parse_fingerprint,
    to_pem,
)
from windlass.base.tls.trust import CertificateRefused, pinned, read_certificates

HEX = "ab" * 32


@pytest.mark.parametrize(
    "text",
    [
        f"sha256:{HEX}",
        HEX.upper(),
        ":".join(["AB"] * 32),
        f" SHA256:{HEX}\n",
        "sha256 Fingerprint=" + ":".join(["AB"] * 32),
    ],
)
def test_all_spellings_are_read(text: str) -> None:
    assert parse_fingerprint(text) == f"sha256:{HEX}"


@pytest.mark.parametrize("text", ["", "sha256:", "sha1:" + "ab" * 20, HEX[1:], "g" * 64])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a fingerprint: expected sha256: and 64"):
        parse_fingerprint(text)


def test_it_is_what_openssl_prints(tmp_path: Path) -> None:
    issued = self_signed(tmp_path)
    command = ["openssl", "x509", "-fingerprint", "-sha256", "-noout", "-in", str(issued.cert)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert parse_fingerprint(printed) == issued.fingerprint


def test_pem_is_read_and_written_as_by_the_library(tmp_path: Path) -> None:
    pem = Authority(tmp_path).issue(with_root=True).pem
    found = certificates_in(pem.encode())
    assert len(found) == 2
    assert found[0] == ssl.PEM_cert_to_DER_cert(
        pem.split("-----END")[0] + "-----END CERTIFICATE-----\n"
    )
    assert "".join(map(to_pem, found)) == pem


def test_a_pin_is_found_anywhere_in_a_chain(tmp_path: Path) -> None:
    chain = certificates_in(Authority(tmp_path).issue(with_root=True).cert.read_bytes())
    own, root = map(fingerprint_of, chain)
    assert pinned(chain, [root], "m:1").pem == to_pem(chain[1])
    assert pinned(chain, ["sha256:x", own], "m:1").pem == to_pem(chain[0])
    with pytest.raises(CertificateRefused) as refused:
        pinned(chain, [f"sha256:{HEX}"], "m:1")
    for part in ("m:1", f"expected sha256:{HEX}", f"got {own}", root):
        assert part in refused.value.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "FIELD {path}: No such file"),
        ("", "FIELD {path} holds no certificate in PEM form"),
        (
            "-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----",
            "a certificate in it is damaged",
        ),
    ],
)
def test_files_that_hold_none(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidArgument) as refused:
        read_certificates(path, "FIELD")
    assert words.format(path=path) in refused.value.message


def test_each_certificate_of_a_chain_says_which_it_is() -> None:
    assert labelled(["sha256:a"]) == ["certificate: sha256:a"]
    assert labelled(["sha256:a", "sha256:b", "sha256:c"]) == [
        "certificate: sha256:a",
        "intermediate: sha256:b",
        "authority: sha256:c",
    ]
