"""What PBS prints, read: on recorded runs of real commands, and on what other releases and sites print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.reasons import ReasonKind
from provisioner.batch.base import EndCause, JobPhase, JobReport
from provisioner.batch.pbs.queues import nodes_of, queues_of
from provisioner.batch.pbs.states import (
    _PHASES,
    has_no_answer,
    phase_of,
    refusal_of,
    report,
    words_of,
)
from provisioner.batch.pbs.text import (
    JOBS,
    NODES,
    QUEUES,
    SERVERS,
    documents,
    duration_s,
    hosts,
    mib,
    records,
    seconds,
    walltime,
)

FOLDER = Path(__file__).parents[3] / "transcripts" / "pbs"
FILES = sorted(FOLDER.glob("*.json"))
KINDS = (JOBS, QUEUES, NODES, SERVERS)


def steps(file: Path) -> Iterator[dict[str, Any]]:
    yield from (s for s in json.loads(file.read_text())["steps"] if "command" in s)


def step(case: str, text: str, number: int = 0) -> dict[str, Any]:
    """The so-manieth step of a case whose command contains the text."""
    return [s for s in steps(FOLDER / f"{case}.json") if text in s["command"]][number]


def jobs_of(case: str, text: str, number: int = 0) -> dict[str, JobReport]:
    found = documents(step(case, text, number)["stdout"], JOBS)
    assert found is not None
    return {id_: report(id_, record) for id_, record in found.items()}


def is_whole(command: str) -> bool:
    """Nothing was done to what it printed."""
    return "|" not in command and ";" not in command and ">" not in command


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_every_recorded_job_and_its_end_are_known(file: Path) -> None:
    """In JSON, and in the text of the same commands."""
    for recorded in steps(file):
        out = recorded["stdout"]
        asked = "qstat" in recorded["command"] and is_whole(recorded["command"])
        if not asked or recorded["exit_code"] not in (0, 35, 153):
            continue
        read = documents(out, JOBS) if "json" in recorded["command"] else records(out, JOBS)
        assert read is not None, recorded["command"]
        for id_, record in read.items():
            job = report(id_, record)
            assert job.state in _PHASES, record
            assert job.cause is not EndCause.UNKNOWN, record
            assert job.name
            assert (job.phase is JobPhase.ENDED) == (job.cause is not None)
            if job.phase in (JobPhase.RUNNING, JobPhase.PAUSED) and job.state != "B":
                assert job.nodes
                assert job.ends_at is not None
            if job.phase is JobPhase.QUEUED and not job.reason:
                assert job.words


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_no_recorded_output_upsets_any_reader(file: Path) -> None:
    for recorded in steps(file):
        out = recorded["stdout"]
        for kind in KINDS:
            queues_of(documents(out, kind) or records(out, kind), nodes_of(records(out, NODES)))
        refusal_of(recorded["exit_code"], recorded["stderr"])


@given(
    st.text(alphabet=st.sampled_from('Job Id:Queue\t\n {}[]",=/*+.0123456789kmgbF'), max_size=150)
)
def test_readers_take_anything(text: str) -> None:
    for kind in KINDS:
        found = documents(text, kind) or records(text, kind)
        queues_of(found, nodes_of(found))
        [report(id_, one) for id_, one in found.items()]
    seconds(text), duration_s(text), mib(text), hosts(text)


@pytest.mark.parametrize("text", ["[]", "3", '{"Jobs": 3}', '{"Jobs": {"1": 2}}', '{"Jobs": {}}'])
def test_documents_of_another_shape_have_no_jobs(text: str) -> None:
    assert not documents(text, JOBS)


def test_a_gang_that_runs() -> None:
    (job,) = jobs_of("multichunk", "qstat -f -F json").values()
    assert (job.phase, job.nodes, job.name) == (JobPhase.RUNNING, ("pn1", "pn2"), "gang")
    assert (job.starts_at, job.ends_at) == (1795212788.0, 1795212968.0)


def test_text_and_json_say_the_same_of_a_queue_and_a_server() -> None:
    text = records(step("queues", "qstat -Q -f short")["stdout"], QUEUES)
    whole = documents(step("queues", "qstat -Q -f -F json")["stdout"], QUEUES)
    assert whole is not None
    assert {k: v for k, v in whole["short"].items() if k != "state_count"} == {
        k: v for k, v in text["short"].items() if k != "state_count"
    }
    listed = records(step("queues", "list queue lim")["stdout"], QUEUES)
    assert listed["lim"] == whole["lim"]
    server = records(step("version", "qstat -B -f")["stdout"], SERVERS)["pbssrv"]
    assert (server["pbs_version"], server["default_queue"]) == ("23.06.06", "workq")
    assert server["state_count"].endswith("Begun:0")


def test_folded_lines_are_one_value() -> None:
    text = "Job Id: 5.s\n    Job_Name = wl-0123\n\t456\n    comment = Not Running: Queue not\n\t started.\n"
    (record,) = records(text, JOBS).values()
    assert record == {"Job_Name": "wl-0123456", "comment": "Not Running: Queue not started."}


@pytest.mark.parametrize(
    "value",
    ['"C:\\tmp"', '"a\tb"', "005", '"BASH_FUNC": () {', '"1", "Job_Name": '],
)
def test_json_that_is_none_is_said_to_be_none(value: str) -> None:
    """As releases before 23 print of environments of users (made by hand, from reports of them)."""
    assert documents(f'{{"Jobs": {{"5.s": {{"Variable_List": {{"X": {value}}}}}}}', JOBS) is None


def test_values_that_json_changes_leave_the_job_as_it_is() -> None:
    """`0123` becomes 123, and a quotation mark swallows the next variable: nothing of ours is there."""
    for recorded in steps(FOLDER / "json-quirks.json"):
        if "-F json" in recorded["command"] and is_whole(recorded["command"]):
            (job,) = (documents(recorded["stdout"], JOBS) or {}).items()
            assert (report(*job).phase, report(*job).state) == (JobPhase.QUEUED, "H")


def test_how_recorded_jobs_ended() -> None:
    ended = jobs_of("walltime-exceeded", "77.pbssrv")["77.pbssrv"]
    assert (ended.cause, ended.ends_at) == (EndCause.TIMEOUT, 1795212851.0)
    killed = jobs_of("delete", "qstat -x -f -F json 20")["20.pbssrv"]
    assert (killed.cause, killed.exit_code) == (EndCause.CANCELLED, 143)
    never = jobs_of("delete", "qstat -x -f -F json 21")["21.pbssrv"]
    assert (never.cause, never.exit_code) == (EndCause.CANCELLED, None)
    well = jobs_of("multichunk", "qstat -x -f -F json")["67.pbssrv"]
    assert (well.cause, well.exit_code) == (EndCause.OK, 0)
    preempted = parts("preemption", "349.pbssrv | egrep")
    assert preempted.cause is EndCause.PREEMPTED
    lost = parts("node-offline-down", "341.pbssrv | egrep")
    assert (lost.cause, lost.exit_code) == (EndCause.NODE_FAILED, None)


def test_exit_codes_stay_as_they_were() -> None:
    codes = {}
    for recorded in steps(FOLDER / "exit-codes.json"):
        found = re.search(r"qstat -x -f (\S+) \| egrep", recorded["command"])
        if found is not None:
            job = part(recorded)
            codes[found[1]] = (job.cause, job.exit_code)
    values = set(codes.values())
    assert (EndCause.OK, 0) in values
    assert (EndCause.FAILED, 3) in values
    assert (EndCause.FAILED, 130) in values
    assert codes["66.pbssrv"] == (EndCause.LAUNCH_FAILED, None)


def parts(case: str, text: str) -> JobReport:
    return part(step(case, text))


def part(recorded: dict[str, Any]) -> JobReport:
    """Of a text of which only some lines were kept."""
    (item,) = records(f"Job Id: 1.s\n{recorded['stdout']}", JOBS).items()
    return report(*item)


@pytest.mark.parametrize(
    ("job_id", "sign", "kind"),
    [
        ("44.pbssrv", "ask for fewer GPUs on a node", ReasonKind.NO_SUCH_AGENT),
        ("46.pbssrv", "the queue is stopped", ReasonKind.NO_CAPACITY),
    ],
)
def test_why_recorded_jobs_wait(job_id: str, sign: str, kind: ReasonKind) -> None:
    job = jobs_of("submit-errors", f"qstat -f -F json {job_id}")[job_id]
    assert (job.phase, job.kind) == (JobPhase.QUEUED, kind)
    assert sign in job.words
    assert job.reason


@pytest.mark.parametrize(
    ("what", "way_out"),
    [
        ("Insufficient amount of resource: mem (R: 500gb A: 64gb T: 64gb)", "mem in -l select"),
        ("Insufficient amount of resource: ncpus (R: 99 A: 16 T: 16)", "cpus_per_slot of the pool"),
        ("Not enough total nodes available", "ask for fewer nodes"),
        ("Insufficient amount of resource: host (nosuch != pn1,pn2)", "correct -l select"),
    ],
)
def test_a_job_that_no_nodes_could_hold_is_told_what_to_ask_for(what: str, way_out: str) -> None:
    """PBS says the same while nodes are down: it is not final, and to wait helps only then."""
    waits = {"job_state": "Q", "substate": "10", "comment": f"Can Never Run: {what}"}
    job = report("1.s", waits)
    assert (job.kind, job.never) == (ReasonKind.NO_SUCH_AGENT, "")
    assert job.words.startswith("no nodes that are up can hold it: ")
    assert way_out in job.words
    assert job.words.endswith("if some that can are down, it starts when they are back")


def test_a_limit_on_running_jobs_is_a_quota() -> None:
    job = parts("submit-errors", "49.pbssrv | egrep")
    assert (job.kind, job.words) == (ReasonKind.QUOTA, "a limit on running jobs is reached")
    assert words_of("", "u") == "held: `qrls` starts it"


def test_a_job_is_paused_while_the_site_suspends_it() -> None:
    job = jobs_of("suspend-resume", "qstat -x -f -F json")["339.pbssrv"]
    assert (job.phase, job.nodes) == (JobPhase.PAUSED, ("pn1",))


def test_states_that_no_release_has_end_nothing() -> None:
    assert phase_of("Z") is JobPhase.RUNNING
    assert phase_of("R", "41") is JobPhase.STARTING


def test_refusals_name_the_way_out() -> None:
    kinds = {}
    for recorded in steps(FOLDER / "submit-errors.json"):
        if recorded["exit_code"] and "qsub" in recorded["command"]:
            refused = refusal_of(recorded["exit_code"], recorded["stderr"])
            assert "(" in refused.message, refused.message
            assert "qsub:" not in refused.message
            kinds[recorded["command"]] = (refused.kind, refused.passing, refused.final)
    assert kinds["qsub -q nosuch -- /bin/sleep 1"] == (ReasonKind.NO_SUCH_AGENT, False, True)
    assert kinds["qsub -q lim -- /bin/sleep 8"] == (ReasonKind.QUOTA, True, False)
    assert kinds["qsub -q offq -- /bin/sleep 1"] == (ReasonKind.NO_CAPACITY, True, False)
    for away in ("UID", "GID"):  # also while the server cannot look users up
        refused = refusal_of(1, f"qsub: Bad {away} for job execution")
        assert (refused.passing, refused.final) == (False, False)
    unknown = refusal_of(1, "qsub: the hook of this site says no")
    assert (unknown.passing, unknown.final) == (False, False)


@pytest.mark.parametrize(
    "text", ["qsub -- ", "qstat -f -F json", "pbsnodes -a", "qdel 1", "qselect"]
)
def test_a_server_that_is_down_says_nothing(text: str) -> None:
    recorded = step("server-down", text)
    assert recorded["exit_code"]
    assert has_no_answer(recorded["exit_code"], recorded["stderr"])


def test_queues_and_hosts_of_a_recorded_site() -> None:
    vnodes = documents(step("pbsnodes", "pbsnodes -av -F json")["stdout"], NODES)
    listed = documents(step("queues", "qstat -Q -f -F json")["stdout"], QUEUES)
    assert vnodes is not None
    assert listed is not None
    nodes = nodes_of(vnodes)
    assert [(n.name, n.gpus, n.cpus, n.memory_mib, n.is_idle) for n in nodes] == [
        ("pn1", 4, 8, 8192, True),
        ("pn2", 4, 8, 8192, True),
    ]
    queues = queues_of(listed, nodes, default="workq")
    assert queues["workq"].is_default
    assert (queues["workq"].nodes, queues["workq"].gpus_per_node) == (2, 4)
    assert (queues["short"].max_walltime_s, queues["short"].default_walltime_s) == (300, 60)
    assert not queues["bigq"].is_open
    assert not queues["offq"].is_open


def test_the_text_of_pbsnodes_says_the_same() -> None:
    text = nodes_of(records(step("pbsnodes", "pbsnodes -a", 1)["stdout"], NODES))
    assert [(n.name, n.gpus, n.cpus, n.is_idle) for n in text] == [
        ("pn1", 4, 8, True),
        ("pn2", 4, 8, True),
    ]


def test_hosts_that_work_or_are_out_are_not_idle() -> None:
    busy = documents(step("multichunk", "pbsnodes -av -F json")["stdout"], NODES)
    assert busy is not None
    assert not any(node.is_idle for node in nodes_of(busy))
    out = documents(step("node-offline-down", "pbsnodes -v pn2 -F json")["stdout"], NODES)
    assert out is not None
    assert not nodes_of(out)[0].is_up


def test_a_node_that_nobody_knows_is_none() -> None:
    found = documents(step("pbsnodes", "pbsnodes nosuch -F json")["stdout"], NODES)
    assert nodes_of(found or {}) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("100:00:00", 360000), ("10:00", 600), ("30", 30), ("1:-2", None), ("", None)],
)
def test_durations(text: str, value: float | None) -> None:
    assert duration_s(text) == value


def test_a_walltime_reads_as_it_was_written() -> None:
    assert walltime(90061.2) == "25:01:02"
    assert duration_s(walltime(90061)) == 90061


@pytest.mark.parametrize(
    ("text", "value"),
    [("8gb", 8192), ("8388608kb", 8192), ("0b", 0), ("1mw", 8), ("2048", 0), ("x", None)],
)
def test_sizes(text: str, value: int | None) -> None:
    assert mib(text) == value


def test_hosts_of_a_job() -> None:
    assert hosts("pn1/0*2+pn1/1*2+pn2/0*0") == ("pn1", "pn2")
    assert hosts("") == ()
