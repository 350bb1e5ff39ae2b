"""What Slurm prints, read: on recorded runs of real commands, and on what other releases and sites print."""

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
from provisioner.batch.base import EndCause, JobPhase
from provisioner.batch.slurm.partitions import nodes_of, partitions_of, queues_of
from provisioner.batch.slurm.states import (
    _CAUSES,
    _PHASES,
    has_no_answer,
    kind_of,
    phase_of,
    refusal_of,
    report,
    words_of,
)
from provisioner.batch.slurm.text import (
    JobLine,
    gpus,
    hosts,
    limit_s,
    node_state,
    queue_lines,
    records,
    sacct_lines,
    scontrol_job,
    settings,
    squeue_lines,
    task_numbers,
    walltime,
)

FOLDER = Path(__file__).parents[3] / "transcripts" / "slurm"
FILES = sorted(FOLDER.glob("*.json"))


def steps(file: Path) -> Iterator[dict[str, Any]]:
    yield from (s for s in json.loads(file.read_text())["steps"] if "command" in s)


def step(case: str, text: str, number: int = 0) -> dict[str, Any]:
    """The so-manieth step of a case whose command contains the text."""
    return [s for s in steps(FOLDER / f"{case}.json") if text in s["command"]][number]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_every_recorded_state_and_exit_is_known(file: Path) -> None:
    """Whatever format a recorded squeue or sacct had: its states are ones that we have words for."""
    for recorded in steps(file):
        found = re.search(r"squeue .*-o '([^']*%T[^']*)'", recorded["command"])
        if found is None or recorded["exit_code"]:
            continue
        fields = found.group(1).split("|")
        place = fields.index("%T")
        for line in recorded["stdout"].splitlines():
            words = line.split("|")
            if len(words) >= len(fields) and words[0][0].isdigit():
                assert words[place] in _PHASES or words[place] in _CAUSES, line


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_no_recorded_output_upsets_any_reader(file: Path) -> None:
    for recorded in steps(file):
        out = recorded["stdout"]
        list(squeue_lines(out)), list(sacct_lines(out)), list(records(out))
        job = scontrol_job(out)
        if "scontrol show job -o" in recorded["command"] and "|" not in recorded["command"]:
            assert job is not None or recorded["exit_code"], recorded["command"]
        queues_of(partitions_of(out), nodes_of(out))
        settings(out)
        refusal_of(recorded["stderr"])


@given(st.text(alphabet=st.sampled_from("n[]-,0123456789|=: \n%*()_abgpu"), max_size=120))
def test_readers_take_anything(text: str) -> None:
    list(squeue_lines(text)), list(sacct_lines(text)), scontrol_job(text), hosts(text)
    queues_of(partitions_of(text), nodes_of(text))
    gpus(text), limit_s(text), node_state(text)


def test_one_line_of_squeue() -> None:
    text = (
        "445|RUNNING|1795217187|1795217787|n[1-2]|2|None|wl-ci-1\n"
        "446|PENDING|N/A|N/A||1|launch failed requeued held|wl-ci-2\n"
        "447|PENDING|N/A|N/A||2|(Priority)|somebody|s|name\n"
        "slurm_load_jobs error\n"
    )
    first, second, third = squeue_lines(text)
    assert first == JobLine(
        job_id="445",
        name="wl-ci-1",
        state="RUNNING",
        reason="None",
        start=1795217187.0,
        end=1795217787.0,
        nodes=("n1", "n2"),
    )
    assert (second.reason, second.start, second.nodes) == ("launch failed requeued held", None, ())
    assert third.name == "somebody|s|name"


def test_jobs_of_an_array_are_called_by_its_name_and_their_number() -> None:
    """As recorded of 22.05, in formats of ours."""
    listed = "63_4|PENDING|N/A|N/A||1|JobArrayTaskLimit|wp-a\n63_0|RUNNING|1|2|n1|1|None|wp-a\n"
    names = {line.name: line.job_id for line in squeue_lines(listed)}
    assert names == {"wp-a.4": "63_4", "wp-a.0": "63_0"}
    shown = scontrol_job(step("arrays", "scontrol show job -o 63_0")["stdout"])
    assert shown is not None
    assert (shown.job_id, shown.name) == ("63_0", "sbatch.0")
    (booked,) = sacct_lines("63_2|FAILED|2:0|1|2|n1|ml|wp-a\n")
    assert (booked.job_id, booked.name) == ("63_2", "wp-a.2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", [3]),
        ("0-3,7", [0, 1, 2, 3, 7]),
        ("4-5%2", [4, 5]),
        ("1-7:3", [1, 4, 7]),
        ("1,4-5,...", [1, 4, 5]),
        ("", []),
    ],
)
def test_numbers_of_the_jobs_of_an_array(text: str, expected: list[int]) -> None:
    assert list(task_numbers(text)) == expected


def test_the_last_run_of_a_requeued_job_comes_last_in_accounting() -> None:
    text = (
        "61|REQUEUED|0:0|1795217187|1795217190|n1|ml|wl-a\n"
        "61|CANCELLED by 2001|0:0|1795217200|1795217210|n[1-2]|ml|wl-a\n"
    )
    first, last = sacct_lines(text)
    assert phase_of(first.state) is JobPhase.QUEUED
    assert (last.state, last.nodes, last.account) == ("CANCELLED", ("n1", "n2"), "ml")
    assert report(last).cause is EndCause.CANCELLED


def test_a_recorded_job_that_ran_into_its_time_limit() -> None:
    line = JobLine(job_id="57", name="x", state="TIMEOUT", reason="TimeLimit", exit_code=(0, 9))
    assert report(line).cause is EndCause.TIMEOUT


def test_exit_codes_of_recorded_jobs() -> None:
    """`scontrol` keeps 130 and 255 as they are; 0:53 is a script that never ran."""
    found = {}
    for recorded in steps(FOLDER / "exit-codes.json"):
        if "scontrol show job" in recorded["command"]:
            job = scontrol_job(recorded["stdout"].replace("\n", " "))
            assert job is not None
            found[job.job_id] = report(job)
    assert [found[id_].exit_code for id_ in ("31", "32", "33", "34", "35")] == [
        3,
        130,
        255,
        137,
        143,
    ]
    assert found["30"].cause is EndCause.OK
    assert found["34"].cause is EndCause.FAILED
    assert found["42"].cause is EndCause.LAUNCH_FAILED


def test_a_node_that_failed() -> None:
    recorded = step("node-drain-down", "scontrol show job -o 91")
    job = scontrol_job(recorded["stdout"].replace("\n", " "))
    assert job is not None
    assert report(job).cause is EndCause.NODE_FAILED
    assert job.nodes == ("n3", "n4")


def test_partitions_and_nodes_of_a_recorded_site() -> None:
    nodes = nodes_of(step("listing", "scontrol show node -o")["stdout"])
    queues = queues_of(
        partitions_of(step("listing", "scontrol show partition -o")["stdout"]), nodes
    )
    gpu, short, maint = queues["gpu"], queues["short"], queues["maint"]
    assert (gpu.is_default, gpu.nodes, gpu.gpus_per_node, gpu.gpu_types) == (
        True,
        4,
        4,
        frozenset({"tesla"}),
    )
    assert (gpu.max_walltime_s, gpu.default_walltime_s, gpu.max_nodes) == (172800, 600, None)
    assert (gpu.cpus_per_node, gpu.memory_mib_per_node, gpu.idle_nodes) == (8, 8000, 1)
    assert (short.max_nodes, short.max_walltime_s, short.default_walltime_s) == (1, 300, None)
    assert (maint.is_open, gpu.is_open) == (False, True)


def test_a_drained_node_is_not_idle() -> None:
    [node] = nodes_of(step("node-drain-down", "scontrol show node n4 -o")["stdout"])
    assert not node.is_idle


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "n[1-3],gpu[08-11,20],a-b[1-2]-ib0",
            "n1 n2 n3 gpu08 gpu09 gpu10 gpu11 gpu20 a-b1-ib0 a-b2-ib0",
        ),
        ("login", "login"),
        ("r[1-2]n[3-4]", "r1n3 r1n4 r2n3 r2n4"),
        ("(null)", ""),
        ("None assigned", ""),
    ],
)
def test_lists_of_hosts(text: str, names: str) -> None:
    assert hosts(text) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:tesla:4(S:0-1)", {"tesla": 4}),
        ("gpu:a100:2(S:0,1),gpu:v100:1,nvme:3", {"a100": 2, "v100": 1}),
        ("gpu:8", {"": 8}),
        ("gpu", {"": 1}),
        ("gres/gpu:2", {"": 2}),
        ("(null)", {}),
    ],
)
def test_gpus_of_nodes(text: str, found: dict[str, int]) -> None:
    assert gpus(text) == found


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-00:00:00", 172800),
        ("00:05:00", 300),
        ("10:00", 600),
        ("30", 1800),
        ("1-6", 108000),
        ("UNLIMITED", None),
        ("NONE", None),
        ("", None),
    ],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert limit_s(text) == seconds


@given(st.integers(min_value=1, max_value=10**7))
def test_a_walltime_is_read_as_it_was_written(seconds: int) -> None:
    assert limit_s(walltime(seconds)) == seconds


@pytest.mark.parametrize("state", ["idle*", "IDLE+DRAIN", "mix#", "down*+not_responding", "MIXED%"])
def test_states_of_nodes_have_no_flags(state: str) -> None:
    assert all(word.replace("_", "").isalpha() and word.isupper() for word in node_state(state))


@pytest.mark.parametrize(
    ("reason", "kind", "way_out"),
    [
        ("Resources", ReasonKind.NO_CAPACITY, ""),
        ("Priority", ReasonKind.NO_CAPACITY, ""),
        ("None", ReasonKind.QUEUED, ""),
        ("QOSMaxJobsPerUserLimit", ReasonKind.QUOTA, ""),
        ("AssocGrpGRES", ReasonKind.QUOTA, ""),
        ("QOSMaxGRESPerUser", ReasonKind.QUOTA, ""),
        ("QOSMaxSubmitJobPerUserLimit", ReasonKind.QUOTA, ""),
        ("AssocGrpWallLimit", ReasonKind.QUOTA, ""),
        ("JobHeldUser", ReasonKind.NO_CAPACITY, ""),
        ("launch failed requeued held", ReasonKind.NO_CAPACITY, ""),
        ("PartitionNodeLimit", ReasonKind.NO_CAPACITY, ""),
        ("PartitionTimeLimit", ReasonKind.NO_CAPACITY, "give a shorter --time"),
        ("InvalidAccount", ReasonKind.NO_CAPACITY, "give one of yours with --account"),
        ("InvalidQOS", ReasonKind.NO_CAPACITY, "give one of yours with --qos"),
        ("AccountNotAllowed", ReasonKind.NO_CAPACITY, ""),
        ("QOSNotAllowed", ReasonKind.QUOTA, ""),
        ("QOSMaxWallDurationPerJobLimit", ReasonKind.QUOTA, "give a shorter --time"),
        ("AssocMaxWallDurationPerJobLimit", ReasonKind.QUOTA, "give a shorter --time"),
        ("QOSMaxGRESPerJob", ReasonKind.QUOTA, "ask for fewer GPUs"),
        ("AssocMaxNodePerJobLimit", ReasonKind.QUOTA, "ask for fewer nodes"),
        ("QOSMaxCpuMinutesPerJobLimit", ReasonKind.QUOTA, "ask for fewer CPU minutes"),
        ("QOSMinCpuNotSatisfied", ReasonKind.QUOTA, "ask for more CPUs"),
        ("QOSMinGRES", ReasonKind.QUOTA, "ask for more GPUs"),
        (
            "Job's account not permitted to use this partition (priv allows other not research)",
            ReasonKind.NO_CAPACITY,
            "",
        ),
        ("ReqNodeNotAvail, UnavailableNodes:n4", ReasonKind.NO_CAPACITY, ""),
    ],
)
def test_why_a_job_waits(reason: str, kind: ReasonKind, way_out: str) -> None:
    """`way_out`: of what does not pass by itself."""
    found = report(JobLine(job_id="1", name="a", state="PENDING", reason=reason))
    assert (found.phase, found.kind) == (JobPhase.QUEUED, kind)
    assert found.never.startswith(way_out)
    assert bool(found.never) is bool(way_out)
    assert kind_of(reason) is kind
    running = report(JobLine(job_id="1", name="a", state="RUNNING", reason=reason))
    assert not running.never


def test_reasons_have_plain_words() -> None:
    assert words_of("ReqNodeNotAvail, UnavailableNodes:n4") == words_of("ReqNodeNotAvail")
    limits = {
        "QOSMaxGRESPerUser": "the QOS has reached its limit of GPUs per user",
        "QOSMaxJobsPerUserLimit": "the QOS has reached its limit of running jobs per user",
        "QOSGrpCpuLimit": "the QOS has reached its limit of CPUs",
        "AssocGrpCPUMinutesLimit": "the account has reached its limit of CPU minutes",
        "AssocMaxJobsLimit": "the account has reached its limit of running jobs",
        "QOSUsageThreshold": "a limit of the QOS is reached",
        "QOSMaxWallDurationPerJobLimit": "it asks for more time than the QOS gives to one job",
        "AssocMaxGRESPerJob": "it asks for more GPUs than the account gives to one job",
        "QOSMinCpuNotSatisfied": "it asks for fewer CPUs than the QOS takes",
    }
    for reason, words in limits.items():
        assert words_of(reason) == words
    assert words_of("") == words_of("None")


def test_a_state_of_a_later_release_ends_nothing() -> None:
    assert phase_of("SOMETHING_NEW") is JobPhase.RUNNING


def test_every_recorded_refusal_is_told_with_the_way_out() -> None:
    """The same job may be taken later only where a limit of submissions was reached."""
    seen = 0
    for case in ("submit-errors", "submit-errors-enforced", "qos-limits", "test-only"):
        for recorded in steps(FOLDER / f"{case}.json"):
            err = recorded["stderr"]
            if "Batch job submission failed" not in err or has_no_answer(err):
                continue
            seen += 1
            refused = refusal_of(err)
            message = refused.message
            assert message.endswith(")"), message
            assert refused.kind in (ReasonKind.NO_SUCH_AGENT, ReasonKind.QUOTA), message
            assert refused.passing == ("MaxSubmit" in err), message
            assert not (refused.passing and refused.final), message
    assert seen >= 15


@pytest.mark.parametrize(
    ("said", "is_final", "way_out"),
    [
        ("Invalid account or account/partition combination specified", True, "with --account"),
        ("invalid partition specified: x", True, "sinfo -s"),
        ("Invalid qos specification", True, "with --qos"),
        ("Requested time limit is invalid (missing or exceeds some limit)", True, "--time"),
        ("QOSMaxWallDurationPerJobLimit\nsbatch: error: {} violates", True, "a shorter --time"),
        ("QOSMaxGRESPerJob\nsbatch: error: {} violates", True, "ask for fewer GPUs"),
        ("QOSMaxSubmitJobPerUserLimit\nsbatch: error: {} violates", False, "when others have"),
        ("AssocGrpGRES\nsbatch: error: {} violates", False, "sacctmgr show assoc"),
        ("Requested reservation not usable now", False, "--reservation"),
        ("Unspecified error", False, "slurm.sbatch_args"),
        ("you have used up your budget of this month", False, "slurm.sbatch_args"),
    ],
)
def test_only_what_cannot_pass_by_itself_is_final(said: str, is_final: bool, way_out: str) -> None:
    said = said.replace("{} violates", "Job violates accounting/QOS policy (job submit limit)")
    refused = refusal_of(f"sbatch: error: {said}\n")
    assert refused.final is is_final
    assert way_out in refused.message


def test_a_controller_that_is_down_is_no_refusal() -> None:
    down = [
        recorded
        for recorded in steps(FOLDER / "controller-down.json")
        if recorded["command"].startswith(("squeue", "sbatch", "scancel", "scontrol show"))
        and recorded["exit_code"]
    ]
    assert len(down) >= 3
    assert all(has_no_answer(recorded["stderr"]) for recorded in down)


def test_jobs_of_everybody_in_a_queue() -> None:
    """Names may hold anything; a line that says no state is left out."""
    text = (
        "71|eve|RUNNING|1800000000|4|a|b\n"
        "72_[1-9%2]|mallory|PENDING|N/A|1|md\n"
        "73|eve||1800000000|1|x\n"
    )
    first, second = queue_lines(text)
    assert (first.job_id, first.user, first.waits, first.nodes) == ("71", "eve", False, 4)
    assert (first.name, first.submitted) == ("a|b", 1_800_000_000)
    assert (second.job_id, second.waits, second.submitted) == ("72_[1-9%2]", True, None)
