"""How the client decides whom to trust, and what it says when it does not."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from client_scripted_master import ScriptedMaster

from tests.certificates import DAY, Authority, Issued, self_signed
from windlass.base.errors import InvalidArgument, InvalidState
from windlass.base.tls.trust import CertificateRefused
from windlass.core._session import RetryPolicy, TaskSession
from windlass.sdk.certificates import CertificateStore
from windlass.sdk.credentials import open_session
from windlass.sdk.session import Session
from windlass.sdk.wire import MasterUnreachable

NOW = datetime.now(UTC)
StartMaster = Callable[[Issued], ScriptedMaster]


@pytest.fixture
def start() -> Iterator[StartMaster]:
    started: list[ScriptedMaster] = []

    def start(issued: Issued) -> ScriptedMaster:
        master = ScriptedMaster(tls=issued)
        master.on("GET", "/info", {"version": "0.38.1"})
        master.on("GET", "/lines", b'{"result": {"line": 1}}\n')
        started.append(master)
        return master

    yield start
    for master in started:
        master.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def info(url: str, environ: dict[str, str], answer: bool | None = None) -> list[str]:
    """What was asked before there was an answer. `answer`: None if there is nobody to ask."""
    asked: list[str] = []

    def ask(text: str) -> bool:
        asked.append(text)
        return bool(answer)

    full = {**os.environ, **environ}
    with open_session(url, full, ask_trust=None if answer is None else ask) as session:
        assert session.get("/info") == {"version": "0.38.1"}
    return asked


def refusal(url: str, environ: dict[str, str], answer: bool | None = None) -> str:
    with pytest.raises(CertificateRefused) as refused:
        info(url, environ, answer)
    return refused.value.message


def test_an_authority_is_given_as_a_file(start: StartMaster, authority: Authority) -> None:
    master = start(authority.issue())
    assert info(master.url, {"DET_MASTER_CERT_FILE": str(authority.root)}) == []


def test_so_is_a_certificate_that_another_has_signed(
    start: StartMaster, authority: Authority
) -> None:
    issued = authority.issue()
    assert info(start(issued).url, {"DET_MASTER_CERT_FILE": str(issued.cert)}) == []


@pytest.mark.parametrize("word", ["noverify", "NoVerify"])
def test_anybody_is_trusted_on_demand(start: StartMaster, authority: Authority, word: str) -> None:
    master = start(authority.issue(hosts=("elsewhere",), valid=(NOW - 2 * DAY, NOW - DAY)))
    assert info(master.url, {"DET_MASTER_CERT_FILE": word}) == []


def test_a_name_may_differ_from_the_host(start: StartMaster, authority: Authority) -> None:
    master = start(authority.issue(hosts=("master.lab", "10.1.2.3")))
    given = {"DET_MASTER_CERT_FILE": str(authority.root)}
    assert info(master.url, {**given, "DET_MASTER_CERT_NAME": "master.lab"}) == []
    said = refusal(master.url, given)
    assert "is for master.lab, 10.1.2.3, not for 127.0.0.1: call it by one of these names" in said
    assert "DET_MASTER_CERT_NAME" in said


@pytest.mark.parametrize(
    ("valid", "words"),
    [
        ((NOW - 2 * DAY, NOW - DAY), "has expired (the clock here says "),
        ((NOW + DAY, NOW + 2 * DAY), "is not valid yet (the clock here says "),
    ],
)
def test_validity_is_looked_at(
    start: StartMaster, authority: Authority, valid: tuple[datetime, datetime], words: str
) -> None:
    issued = authority.issue(valid=valid)
    said = refusal(start(issued).url, {"DET_MASTER_CERT_FILE": str(authority.root)}, answer=True)
    assert words in said
    assert issued.fingerprint in said


def test_a_stranger_is_refused_where_nobody_can_be_asked(
    start: StartMaster, authority: Authority
) -> None:
    issued = authority.issue()
    url = start(issued).url
    said = refusal(url, {})
    assert issued.fingerprint in said
    assert f"run `det -m {url} user login` on a terminal, or set DET_MASTER_CERT_FILE" in said


def test_a_stranger_is_accepted_once_and_for_all(start: StartMaster, authority: Authority) -> None:
    issued = authority.issue(with_root=True)
    master = start(issued)
    (question,) = info(master.url, {}, answer=True)
    assert issued.fingerprint in question
    assert authority.fingerprint in question
    assert info(master.url, {}, answer=False) == []
    store = CertificateStore.of_user(os.environ)
    assert store.get(master.url) == issued.pem
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    master.show(authority.issue(with_root=True))  # the authority is the same
    assert info(master.url, {}) == []


def test_a_stream_asks_as_well(start: StartMaster, tmp_path: Path) -> None:
    url = start(self_signed(tmp_path)).url
    with open_session(url, os.environ, ask_trust=lambda _: True) as session:
        assert list(session.stream("/lines")) == [{"line": 1}]


def test_no_is_no(start: StartMaster, tmp_path: Path) -> None:
    url = start(self_signed(tmp_path)).url
    assert "was not accepted" in refusal(url, {}, answer=False)
    assert CertificateStore.of_user(os.environ).get(url) == ""


def test_another_one_than_before_is_said_to_be_that(start: StartMaster, tmp_path: Path) -> None:
    first, second = self_signed(tmp_path, "first"), self_signed(tmp_path, "second")
    master = start(first)
    info(master.url, {}, answer=True)
    master.show(second)
    assert "it is NOT the one that you have accepted before" in refusal(master.url, {})
    (question,) = info(master.url, {}, answer=True)
    assert f"NOT the certificate that you have accepted before ({first.fingerprint})" in question
    assert info(master.url, {}) == []


def test_who_names_a_file_is_not_asked(
    start: StartMaster, authority: Authority, tmp_path: Path
) -> None:
    url = start(self_signed(tmp_path)).url
    said = refusal(url, {"DET_MASTER_CERT_FILE": str(authority.root)}, answer=True)
    assert f"DET_MASTER_CERT_FILE={authority.root} holds no certificate that signs it" in said


def test_a_file_that_cannot_be_read(start: StartMaster, tmp_path: Path) -> None:
    url = start(self_signed(tmp_path)).url
    with pytest.raises(InvalidArgument, match=r"DET_MASTER_CERT_FILE /nowhere: No such file"):
        info(url, {"DET_MASTER_CERT_FILE": "/nowhere"})


def test_a_damaged_store_is_named(start: StartMaster, tmp_path: Path) -> None:
    url = start(self_signed(tmp_path)).url
    store = CertificateStore.of_user(os.environ)
    store.path.parent.mkdir(parents=True)
    store.path.write_text("{")
    with pytest.raises(InvalidState, match=rf"{store.path} is damaged: delete it"):
        info(url, {})


def test_the_store_is_that_of_the_published_client(home: Path, tmp_path: Path) -> None:
    at = {"": home / ".config/determined", "XDG_CONFIG_HOME": tmp_path / "determined"}
    for variable, folder in at.items():
        environ = {variable: str(tmp_path)} if variable else {}
        assert CertificateStore.of_user(environ).path == folder / "certs.json"
    debug = CertificateStore.of_user({"DET_DEBUG_CONFIG_PATH": str(tmp_path)})
    debug.put("https://m:1", "pem")
    debug.put("https://n:1", "other")
    assert json.loads((tmp_path / "certs.json").read_text()) == {
        "https://m:1": "pem",
        "https://n:1": "other",
    }


def test_https_to_a_port_without_tls_is_named(master: ScriptedMaster) -> None:
    url = master.url.replace("http:", "https:")
    assert "does not speak TLS: write http:// instead" in refusal(url, {}, answer=True)


def test_a_session_by_itself_says_what_is_wrong(start: StartMaster, tmp_path: Path) -> None:
    issued = self_signed(tmp_path)
    with Session(start(issued).url) as session, pytest.raises(CertificateRefused) as refused:
        session.get("/info")
    assert issued.fingerprint in refused.value.message


def task_session(url: str, cert_file: str | None, name: str | None = None) -> TaskSession:
    retry = RetryPolicy(total_s=0.0)
    return TaskSession(url, "token", cert_file=cert_file, cert_name=name, retry=retry)


def test_a_task_trusts_its_file_and_name(start: StartMaster, authority: Authority) -> None:
    issued = authority.issue(hosts=("master.lab",))
    url = start(issued).url
    for given in (str(authority.root), str(issued.cert), "noverify"):
        session = task_session(url, given, "master.lab")
        assert session.get("/info") == {"version": "0.38.1"}
        session.close()


@pytest.mark.parametrize(
    ("name", "words"), [("other.lab", "not for other.lab"), (None, "not for 127.0.0.1")]
)
def test_a_task_says_why_it_does_not(
    start: StartMaster, authority: Authority, name: str | None, words: str
) -> None:
    url = start(authority.issue(hosts=("master.lab",))).url
    with pytest.raises(MasterUnreachable) as refused:
        task_session(url, str(authority.root), name).get("/info")
    assert words in refused.value.message
    with pytest.raises(MasterUnreachable, match="this task trusts public authorities"):
        task_session(url, None).get("/info")
