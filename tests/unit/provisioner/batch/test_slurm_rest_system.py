"""slurmrestd as it answered: Slurm 22.05.8, 23.11.11 and 25.11.7, v0.0.36 to v0.0.44."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.batch.base import (
    EndCause,
    JobPhase,
    JobRefused,
    JobSpec,
    NoAnswer,
)
from provisioner.batch.commands import FinishedCommand, LocalCommands
from provisioner.batch.slurm.partitions import queues_of
from provisioner.batch.slurm.rest import documents
from provisioner.batch.slurm.rest.client import RestClient
from provisioner.batch.slurm.rest.inetd import InetdTransport
from provisioner.batch.slurm.rest.submission import body, problems
from provisioner.batch.slurm.rest.system import RestSystem
from provisioner.batch.slurm.rest.tokens import FileTokens
from provisioner.batch.slurm.states import _CAUSES, _PHASES, report

TRANSCRIPTS = Path(__file__).parents[3] / "transcripts" / "slurm"
FILES = sorted(TRANSCRIPTS.glob("*.json"))
RELEASES = ("rest-22.05.8", "rest-23.11.11", "rest-25.11.7")


class Recorded:
    """One answer: its label, status and document."""

    def __init__(self, step: dict[str, Any]) -> None:
        text, _, tail = str(step.get("stdout", "")).rpartition("\nHTTP ")
        self.label = str(step.get("label", ""))
        self.sent = step.get("stdin")
        self.status = int(tail[:3]) if tail[:3].isdigit() else 0
        self.text = text
        try:
            self.document: Any = json.loads(text)
        except ValueError:
            self.document = None

    @property
    def version(self) -> str:
        found = re.match(r"v0\.0\.(\d+)", self.label)
        return found.group(1) if found else ""


def recorded(case: str) -> list[Recorded]:
    steps = json.loads((TRANSCRIPTS / f"{case}.json").read_text())["steps"]
    return [Recorded(step) for step in steps if "command" in step]


def labelled(what: str) -> Iterator[tuple[str, Recorded]]:
    """Of every release and version."""
    for case in RELEASES:
        for one in recorded(case):
            if one.version and one.label.removeprefix(f"v0.0.{one.version} ") == what:
                yield f"{case} v0.0.{one.version}", one


EXPECTED_VERSIONS = 2 + 3 + 4


def test_all_recorded_versions_are_read() -> None:
    assert len(list(labelled("running job"))) == EXPECTED_VERSIONS


def test_a_job_reads_the_same_in_every_version() -> None:
    for name, one in labelled("running job"):
        (line,) = documents.jobs(one.document)
        told = report(line)
        assert (told.name, told.phase) == ("rest", JobPhase.RUNNING), name
        assert told.nodes == ("n1", "n2"), name
        assert told.account == "research", name
        assert told.starts_at is not None, name
        assert told.ends_at == told.starts_at + 180, name
        assert told.reason == "", name
        (record,) = one.document["jobs"]
        kept = documents.owned(record, "alice")
        assert list(documents.jobs({"jobs": [kept]})) == [line], name
        assert documents.owned(record, "alic") is None, name
        (foreign,) = documents.foreign_jobs(one.document, "gpu")
        assert (foreign.user, foreign.nodes, foreign.waits) == ("alice", 2, False), name
        assert not list(documents.foreign_jobs(one.document, "short")), name
    for name, one in labelled("cancelled job"):
        (line,) = documents.jobs(one.document)
        told = report(line)
        assert (told.cause, told.exit_code) == (EndCause.CANCELLED, 143), name
    for name, one in labelled("accounting record"):
        *_, line = documents.remembered(one.document)
        assert report(line).cause is EndCause.CANCELLED, name


def test_queues_read_the_same_in_every_version() -> None:
    nodes = dict(labelled("nodes"))
    partitions = dict(labelled("partitions"))
    assert set(nodes) == set(partitions)
    assert len(nodes) == EXPECTED_VERSIONS
    for name, one in partitions.items():
        queues = queues_of(
            documents.partitions(one.document), documents.nodes(nodes[name].document)
        )
        queue = queues["gpu"]
        assert queue.is_open, name
        assert queue.is_default, name
        assert (queue.gpus_per_node, queue.gpu_types) == (4, {"tesla"}), name
        assert (queue.cpus_per_node, queue.memory_mib_per_node) == (8, 8000), name
        assert (queue.max_nodes, queue.max_walltime_s) == (None, 2880 * 60), name
        # v0.0.37 of 22.05 has no default.
        assert queue.default_walltime_s == (None if name.endswith("37") else 600), name
        if "22.05" in name:
            assert (queue.nodes, queues["maint"].is_open) == (4, False), name


def test_unknown_and_ended_jobs_are_told_apart_from_no_answer() -> None:
    for what in ("unknown job", "cancel unknown"):
        for name, one in labelled(what):
            assert documents.is_unknown_job(one.document), (name, what)
            assert documents.is_over(one.document), (name, what)
    for name, one in labelled("cancel ended"):
        assert documents.is_over(one.document), name
    for name, one in labelled("bad token"):
        assert not documents.is_unknown_job(one.document), name
        assert documents.errors(one.document), name


def test_a_submission_is_taken_if_it_has_an_id() -> None:
    assert all(documents.submitted(one.document).isdigit() for _, one in labelled("submit"))
    for name, one in labelled("unknown partition"):
        assert documents.submitted(one.document) == "", name
        assert "Invalid partition name" in documents.errors(one.document)[0], name


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_no_recorded_document_upsets_any_reader(file: Path) -> None:
    """Those of commands with --json too; every state of a job is one that we know."""
    for step in json.loads(file.read_text())["steps"]:
        one = Recorded(step)
        found = one.document or _parsed(str(step.get("stdout", "")))
        for line in documents.jobs(found):
            assert line.state in _PHASES or line.state in _CAUSES, line
        list(documents.remembered(found)), documents.errors(found), documents.release(found)
        list(documents.foreign_jobs(found, "")), documents.submitted(found)
        queues_of(documents.partitions(found), documents.nodes(found))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


KEYS = (
    *("jobs", "nodes", "partitions", "errors", "status", "meta", "slurm", "result"),
    *("job_id", "job_state", "time", "state", "set", "number", "name", "error_number"),
    *("exit_code", "signal", "maximums", "user_name"),
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_ANYTHING)
def test_readers_take_anything(document: object) -> None:
    list(documents.jobs(document)), list(documents.remembered(document))
    documents.errors(document), documents.release(document), documents.submitted(document)
    queues_of(documents.partitions(document), documents.nodes(document))
    list(documents.foreign_jobs(document, "")), documents.is_unknown_job(document)


def spec(**settings: Any) -> JobSpec:
    given: dict[str, Any] = {
        "name": "wl-1",
        "queue": "gpu",
        "nodes": 2,
        "gpus_per_node": 2,
        "walltime_s": 90,
        "directory": Path("/shared/wl-1"),
        "script": "#!/bin/sh\ntrue\n",
    }
    return JobSpec(**{**given, **settings})


def test_those_jobs_of_an_array_that_wait_are_one_record() -> None:
    """As slurmrestd 22.05.8 told them."""
    common = {"name": "wp-a", "array_job_id": 6, "user_name": "root", "nodes": "n1"}
    document = {
        "jobs": [
            {**common, "job_id": 7, "job_state": "RUNNING", "array_task_id": 0},
            {**common, "job_id": 10, "job_state": "CANCELLED", "array_task_id": 3},
            {
                **common,
                "job_id": 6,
                "job_state": "PENDING",
                "array_task_id": None,
                "array_task_string": "4-5",
            },
        ]
    }
    names = {line.job_id: (line.name, line.state) for line in documents.jobs(document)}
    assert names == {
        "6_0": ("wp-a.0", "RUNNING"),
        "6_3": ("wp-a.3", "CANCELLED"),
        "6_4": ("wp-a.4", "PENDING"),
        "6_5": ("wp-a.5", "PENDING"),
    }
    mine = {"jobs": [documents.owned(record, "root") for record in document["jobs"]]}
    assert {line.job_id for line in documents.jobs(mine)} == set(names)
    booked = {"job_id": 10, "array": {"job_id": 6, "task_id": 3}, "state": {"current": "CANCELLED"}}
    (line,) = documents.remembered({"jobs": [{**common, **booked, "time": {}}]})
    assert (line.job_id, line.name) == ("6_3", "wp-a.3")


@pytest.mark.parametrize("version", [38, 40])
def test_an_array_starts_each_of_its_jobs_in_a_directory_of_its_own(version: int) -> None:
    fields = body(spec(tasks=3), version)["job"]
    assert isinstance(fields, dict)
    assert (fields["array"], fields["current_working_directory"]) == ("0-2", "/shared")
    assert fields["standard_output"] == "/shared/wl-1.%a/batch.log"


def test_what_the_master_sets_in_both_forms() -> None:
    """A site never runs one of our jobs again by itself; v0.0.38 does not listen to `requeue: false`."""
    job = spec(memory_mib_per_node=100, avoid=("n7", "n8"), gpu_type="a100", nice=3)
    old: Any = body(job, 38)
    new: Any = body(job, 44)
    assert (old["job"]["no_requeue"], new["job"]["requeue"]) == (True, False)
    assert (old["job"]["nodes"], new["job"]["nodes"]) == ([2, 2], "2-2")
    assert (old["job"]["gres"], new["job"]["tres_per_node"]) == ("gpu:a100:2", "gres/gpu:a100:2")
    assert (old["job"]["exclude_nodes"], new["job"]["excluded_nodes"]) == ("n7,n8", ["n7", "n8"])
    assert old["job"]["time_limit"] == 2
    assert new["job"]["time_limit"] == {"set": True, "infinite": False, "number": 2}
    assert isinstance(old["job"]["environment"], dict)
    assert isinstance(new["job"]["environment"], list)
    assert new["job"]["script"].startswith("#!/bin/sh\n")
    assert body(job, 40)["script"] == old["script"]
    assert "standard_out" in body(job, 36)["job"]  # type: ignore[operator]


def test_arguments_of_sbatch_become_fields() -> None:
    arguments = (
        "-A lab",
        "--qos=high",
        "-C a100",
        "--mem=2G",
        "-t 1:00:00",
        "--gres=nic:1",
        "-x n1",
    )
    assert problems(arguments) == []
    fields: Any = body(spec(arguments=arguments, avoid=("n9",)), 38)["job"]
    assert (fields["account"], fields["qos"], fields["constraints"]) == ("lab", "high", "a100")
    assert (fields["memory_per_node"], fields["time_limit"]) == (2048, 60)
    assert (fields["gres"], fields["exclude_nodes"]) == ("gpu:2,nic:1", "n9,n1")


@pytest.mark.parametrize(
    ("argument", "word"),
    [("--mail-user=a@b", "no field"), ("--mem=lots", "16G"), ("--time=soon", "2:00:00")],
)
def test_arguments_without_a_field_are_refused_with_the_way_out(argument: str, word: str) -> None:
    (said,) = problems([argument])
    assert word in said
    assert argument in said


def transport(answer: Callable[[httpx2.Request], httpx2.Response]) -> RestSystem:
    """A slurmrestd that has v0.0.38 and v0.0.99."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/openapi/v3":
            return httpx2.Response(200, text='"\\/slurm\\/v0.0.38\\/jobs" "/slurm/v0.0.99/jobs/"')
        return answer(request)

    client = RestClient("here", lambda: httpx2.MockTransport(handle))
    return RestSystem(client, NoCommands(), "alice")


class NoCommands:
    async def run(self, words: Any, *, stdin: str = "", limit_s: float = 0) -> FinishedCommand:
        assert words == ["sinfo", "--version"], "what tells its release, where it is there"
        raise NoAnswer("sinfo cannot be run")


def test_an_answer_that_is_none_is_never_an_end() -> None:
    """Whatever a site says that went wrong, no job is over."""
    for case in RELEASES:
        for one in recorded(case):
            if not one.label.endswith(("bad token", "no token", "expired token", "another's")):
                continue

            def answer(_: httpx2.Request, one: Recorded = one) -> httpx2.Response:
                return httpx2.Response(one.status, text=one.text)

            for call in (
                lambda s: s.poll(["wl-1"]),
                lambda s: s.look_up("1"),
                lambda s: s.named_like("wl-"),
                lambda s: s.site(),
                lambda s: s.submit(spec()),
            ):
                with pytest.raises(NoAnswer, match="slurmrestd"):
                    asyncio.run(call(transport(answer)))


def test_a_refusal_of_a_job_is_one() -> None:
    for name, one in labelled("unknown partition"):

        def answer(_: httpx2.Request, one: Recorded = one) -> httpx2.Response:
            return httpx2.Response(one.status, text=one.text)

        with pytest.raises(JobRefused, match="sinfo"):
            asyncio.run(transport(answer).submit(spec()))
        assert name


def test_an_argument_that_this_version_has_no_field_for_is_refused() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text='"/slurm/v0.0.40/jobs"')

    client = RestClient("here", lambda: httpx2.MockTransport(handle))
    system = RestSystem(client, NoCommands(), "alice")
    with pytest.raises(JobRefused, match=r"--exclusive.*remove it"):
        asyncio.run(system.submit(spec(arguments=("--exclusive",))))


def test_a_job_of_somebody_else_with_our_name_is_not_ours() -> None:
    job = {"job_id": 7, "name": "wl-1", "job_state": "RUNNING", "user_name": "mallory"}

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"jobs": [job]})

    assert asyncio.run(transport(answer).poll(["wl-1"])) == {}


def with_accounting(by_slurm: httpx2.Response, by_slurmdbd: httpx2.Response) -> RestSystem:
    """What each of them says of a job."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/openapi/v3":
            return httpx2.Response(200, text='"/slurm/v0.0.38/jobs" "/slurmdb/v0.0.38/jobs"')
        return by_slurmdbd if request.url.path.startswith("/slurmdb/") else by_slurm

    client = RestClient("here", lambda: httpx2.MockTransport(handle))
    return RestSystem(client, NoCommands(), "alice")


@pytest.mark.parametrize("status", [200, 500], ids=["22.05", "later"])
def test_while_slurmdbd_is_away_its_controller_tells_what_it_knows(status: int) -> None:
    """As with commands: else one job that accounting is asked for would hold up all others."""
    away = httpx2.Response(status, json={"errors": [{"error": "Unable to connect to database"}]})
    cancelled = {"job_id": 7, "name": "wl-1", "job_state": "CANCELLED", "user_name": "alice"}
    told = asyncio.run(
        with_accounting(httpx2.Response(200, json={"jobs": [cancelled]}), away).look_up("7")
    )
    assert told is not None
    assert told.cause is EndCause.CANCELLED
    unknown = {"errors": [{"error": "Invalid job id specified", "error_number": 2017}]}
    system = with_accounting(httpx2.Response(500, json=unknown), away)
    assert asyncio.run(system.look_up("7")) is None


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [("FAILED", 0, None), ("FAILED", 3, 3), ("COMPLETED", 0, 0)],
)
def test_a_bad_end_with_a_good_exit_code_has_none(state: str, code: int, told: int | None) -> None:
    """Slurm 22.05 tells 0 of every job that no signal ended."""
    job = {
        "job_id": 7,
        "name": "wl-1",
        "state": {"current": state},
        "time": {"start": 1, "end": 2},
        "exit_code": {"status": "SUCCESS", "return_code": code},
    }
    (line,) = documents.remembered({"jobs": [job]})
    assert report(line).exit_code == told


def test_a_server_of_unknown_versions_names_both_sides() -> None:
    def handle(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, text='"/slurm/v0.0.99/jobs"')

    client = RestClient("here", lambda: httpx2.MockTransport(handle))
    with pytest.raises(NoAnswer, match=r"v0\.0\.99.*v0\.0\.36 to v0\.0\.44"):
        asyncio.run(client.served())


def test_a_server_that_is_not_there_is_no_answer() -> None:
    def handle(_: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused")

    client = RestClient("here", lambda: httpx2.MockTransport(handle))
    with pytest.raises(NoAnswer, match="here cannot be reached: refused") as failed:
        asyncio.run(client.served())
    assert not failed.value.may_run


class Programs:
    """Commands that answer in turn."""

    def __init__(self, *answers: FinishedCommand) -> None:
        self.answers = list(answers)
        self.lines: list[list[str]] = []
        self.given: list[str] = []

    async def run(self, words: Any, *, stdin: str = "", limit_s: float = 0) -> FinishedCommand:
        self.lines.append(list(words))
        self.given.append(stdin)
        return self.answers.pop(0)


def test_one_process_for_each_request() -> None:
    """As 22.05 answers: something follows the body; where there is no slurmdbd it starts without those plug-ins."""
    wrote = "HTTP/1.1 200 OK\r\nContent-Length: 21\r\nContent-Type: application/json\r\n\r\n"
    programs = Programs(
        FinishedCommand(
            1, "", "slurmrestd: fatal: slurm_openapi_p_init: slurm not configured with slurmdbd"
        ),
        FinishedCommand(0, "", "slurmrestd: openapi/dbv0.0.38\nslurmrestd: openapi/v0.0.38\n"),
        FinishedCommand(0, wrote + '"/slurm/v0.0.38/jobs"Connection: Close\r\n', ""),
        FinishedCommand(0, wrote + '{"jobs": []}Connection: Close\r\n', ""),
    )
    way = InetdTransport(programs, "/usr/sbin/slurmrestd")
    system = RestSystem(RestClient("inetd", lambda: way), programs, "alice")
    assert asyncio.run(system.poll(["wl-1"])) == {}
    assert programs.lines[1][1:] == ["-s", "list"]
    assert programs.lines[3][1:] == ["-s", "openapi/v0.0.38"]
    head = programs.given[3].split("\r\n")
    assert head[0] == "GET /slurm/v0.0.38/jobs HTTP/1.1"
    assert "Content-Length: 0" in head


SAYS_WHO = """#!/bin/sh
cat > /dev/null
printf 'HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\n%s' "$0"
"""


def program(path: Path, text: str = SAYS_WHO) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def answered_by(environ: dict[str, str], path: str = "") -> str:
    """Which slurmrestd that is."""
    way = InetdTransport(LocalCommands(path=path, environ=environ), "")

    async def ask() -> str:
        async with httpx2.AsyncClient(transport=way, base_url="http://localhost") as client:
            return (await client.get("/openapi/v3")).text

    return asyncio.run(ask())


def test_slurmrestd_is_found_by_path_and_beside_the_commands_of_slurm(tmp_path: Path) -> None:
    """Another one may be installed where the distribution has it."""
    site = program(tmp_path / "site/sbin/slurmrestd")
    program(tmp_path / "site/bin/sinfo", "#!/bin/sh\n")
    other = program(tmp_path / "other/slurmrestd")
    assert answered_by({"PATH": f"{tmp_path}/site/bin:{tmp_path}/other"}) == site
    assert answered_by({"PATH": f"{tmp_path}/other:{tmp_path}/site/bin"}) == other
    assert answered_by({"PATH": f"{tmp_path}/other"}, f"{tmp_path}/site/bin") == site
    assert answered_by({"PATH": f"{tmp_path}/site/sbin:{tmp_path}/other"}) == site


def test_a_site_without_slurmrestd_says_where_it_was_looked_for() -> None:
    way = InetdTransport(Programs(FinishedCommand(1)), "")
    with pytest.raises(NoAnswer, match=r"neither in PATH nor .* set path, or api.url to inetd:/"):
        asyncio.run(RestClient("inetd:", lambda: way).served())


@pytest.mark.parametrize(
    ("sinfo", "says"),
    [
        (FinishedCommand(0, "slurm 25.11.7\n"), True),
        (FinishedCommand(0, "slurm-wlm 22.05.9\n"), False),
        (FinishedCommand(127, "", "sinfo: not found\n"), False),
    ],
)
def test_a_slurmrestd_of_another_release_than_the_sites_is_said(
    sinfo: FinishedCommand, says: bool
) -> None:
    """It serves its API, and cannot speak with the controller."""
    down = next(one for one in recorded("rest-22.05.8") if one.label == "v0.0.38 bad token")

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/openapi/v3":
            return httpx2.Response(200, text='"/slurm/v0.0.38/jobs"')
        return httpx2.Response(500, text=down.text)

    client = RestClient("inetd:", lambda: httpx2.MockTransport(handle))
    with pytest.raises(NoAnswer, match="the controller does not answer") as failed:
        asyncio.run(RestSystem(client, Programs(sinfo), "alice").named_like("wl-"))
    expected = "slurmrestd is of Slurm 22.05.8, and the commands of the site are of 25.11.7"
    assert (expected in failed.value.message) == says
    assert ("or remove api" in failed.value.message) == says


def test_a_token_goes_in_a_header_and_nowhere_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("SLURM_JWT=secret.of.alice\n")
    seen = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.headers["X-SLURM-USER-NAME"], request.headers["X-SLURM-USER-TOKEN"]))
        if request.url.path == "/openapi/v3":
            return httpx2.Response(200, text='"/slurm/v0.0.38/jobs"')
        return httpx2.Response(401, text="Authentication failure")

    client = RestClient(
        "here", lambda: httpx2.MockTransport(handle), tokens=FileTokens(file), user="alice"
    )
    caplog.set_level("DEBUG")
    with pytest.raises(NoAnswer, match=r"token of user alice.*scontrol token") as failed:
        asyncio.run(client.call("GET", "jobs"))
    assert set(seen) == {("alice", "secret.of.alice")}
    assert "secret.of" not in str(failed.value)
    assert "secret.of" not in caplog.text
