"""Traces of jobs: what is read, and what each bad row is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from provisioner.simulator.trace import TraceJob, parse_trace, read_trace
from windlass.base.errors import InvalidConfig

HEADER = "arrival_s,gpus,duration_s,job_id,user,preemptible\n"
TRACES = Path(__file__).parents[2] / "traces"


def problems(*lines: str) -> list[str]:
    with pytest.raises(InvalidConfig) as caught:
        parse_trace([HEADER, *lines], "jobs.csv")
    return list(caught.value.problems)


def test_every_column_is_read() -> None:
    (job,) = parse_trace([HEADER, "1.5, 8 ,60,a,ann,no\n"], "jobs.csv").jobs
    assert job == TraceJob(
        job_id="a", arrival_s=1.5, slots=8, duration_s=60.0, user="ann", preemptible=False
    )


def test_jobs_without_an_id_are_called_by_their_row() -> None:
    trace = parse_trace(["arrival_s,slots,duration_s\n", "0,1,5\n", "\n", "0,1,5\n"], "jobs.csv")
    assert [job.job_id for job in trace.jobs] == ["1", "3"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("x,1,1,a,,", "line 2: arrival_s 'x' is no number"),
        ("-1,1,1,a,,", "line 2: arrival_s -1 must be a number of seconds from 0 on"),
        ("nan,1,1,a,,", "line 2: arrival_s nan must be a number of seconds from 0 on"),
        ("0,1,inf,a,,", "line 2: duration_s inf must be a number of seconds from 0 on"),
        ("0,1.5,1,a,,", "line 2: slots '1.5' is no whole number"),
        ("0,0,1,a,,", "line 2: slots 0 must be from 1 to 1000000"),
        ("0,1,1,a,,maybe", "line 2: preemptible 'maybe' must be true or false"),
        ("0,1,1", "line 2: 3 cells, but 6 columns"),
    ],
)
def test_a_bad_row_names_line_column_and_value(row: str, told: str) -> None:
    assert problems(f"{row}\n")[0] == told


def test_times_that_run_backwards_are_refused_and_sorted_if_asked() -> None:
    rows = ["10,1,1,a,,\n", "5,1,1,b,,\n"]
    assert problems(*rows)[0] == (
        "line 3: arrival_s 5 is before the row above (10): sort the file by arrival_s"
    )
    sorted_trace = parse_trace([HEADER, *rows], "jobs.csv", lenient=True)
    assert [job.job_id for job in sorted_trace.jobs] == ["b", "a"]
    assert sorted_trace.skipped == 0


def test_the_same_job_twice() -> None:
    assert problems("0,1,1,a,,\n", "0,1,1,a,,\n")[0] == "line 3: job_id a is there twice"


def test_ten_bad_rows_are_named_and_the_rest_counted() -> None:
    told = problems(*["x,1,1,a,,\n"] * 25)
    assert told[9:] == [
        "line 11: arrival_s 'x' is no number",
        "and 15 more bad rows",
        "--lenient skips bad rows and sorts the others by arrival_s",
    ]


def test_bad_rows_are_skipped_if_asked() -> None:
    trace = parse_trace([HEADER, "x,1,1,a,,\n", "0,1,1,b,,\n"], "jobs.csv", lenient=True)
    assert (len(trace.jobs), trace.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("arrival_s,gpu,duration_s\n", "line 1: column 'gpu' is unknown: did you mean gpus?"),
        ("arrival_s,slots\n", "line 1: column duration_s is missing"),
        ("arrival_s,gpus,slots,duration_s\n", "line 1: column slots is there twice"),
        ("", "line 1: column arrival_s is missing"),
    ],
)
def test_bad_columns(header: str, told: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_trace([header], "jobs.csv")
    assert told in caught.value.problems


def test_a_trace_without_jobs() -> None:
    assert problems() == ["no jobs: a row for each job is expected"]


def test_bytes_that_are_no_text_are_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(HEADER.encode() + b"\xff\xfe\x00,1,1,a,,\n")
    with pytest.raises(InvalidConfig, match="line 2: arrival_s"):
        read_trace(path)


def test_the_traces_beside_the_tests_are_whole() -> None:
    jobs = {path.stem: len(read_trace(path).jobs) for path in sorted(TRACES.glob("*.csv"))}
    assert jobs == {
        "philly_0e4a51": 2638,
        "philly_103959": 876,
        "philly_2869ce": 992,
        "philly_ee9e8c": 5755,
    }


@pytest.mark.slow
def test_a_million_rows() -> None:
    def lines() -> Iterator[str]:
        yield HEADER
        for n in range(1_000_000):
            yield f"{n},1,60,,,\n"

    assert len(parse_trace(lines(), "jobs.csv").jobs) == 1_000_000
