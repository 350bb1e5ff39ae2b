"""`windlass simulate` from its options to its tables."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from provisioner.providers.embedded import BOOT_ALLOWANCE_S
from windlass.cli.main import app

MASTER = """
resource_pools:
  - pool_name: gpu
    max_instances: {max}
    provider: {{type: embedded, slots_per_instance: 2, usd_per_hour: 2, boot_time: 60s}}
"""
TRACE = "arrival_s,gpus,duration_s,job_id\n0,2,3600,a\n0,2,3600,b\n0,3,10,odd\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(MASTER.format(max=10))
    (tmp_path / "b.yaml").write_text(MASTER.format(max=1))
    (tmp_path / "jobs.csv").write_text(TRACE)
    return tmp_path


def run(files: Path, *options: str, config: str = "a.yaml") -> Any:
    base = ["simulate", "-c", str(files / config), "-t", str(files / "jobs.csv")]
    return CliRunner().invoke(app, [*base, *options])


def test_two_configurations_beside_each_other(files: Path) -> None:
    result = run(files, "--compare", str(files / "b.yaml"), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    wide, narrow = told[str(files / "a.yaml")], told[str(files / "b.yaml")]
    assert (wide["most_machines"], narrow["most_machines"]) == (2, 1)
    boot_s = 60.0 + BOOT_ALLOWANCE_S
    assert wide["waits"]["longest_s"] == boot_s
    assert narrow["waits"]["longest_s"] == boot_s + 3600.0
    assert (wide["jobs"], wide["refused_jobs"]) == (2, 1)


def test_a_table_for_people_names_what_is_refused(files: Path) -> None:
    result = run(files, "--compare", str(files / "b.yaml"))
    assert "machines launched" in result.stdout
    assert "ratio" in result.stdout.splitlines()[0]
    assert "refuses odd: no instance type of the pool fits 3 slots" in result.stderr


def test_tables_of_all_that_happened_are_written(files: Path) -> None:
    result = run(files, "--csv", str(files / "out"))
    assert result.exit_code == 0, result.output
    with (files / "out" / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["job_id"] for row in rows] == ["a", "b"]
    assert {path.name for path in (files / "out").iterdir()} == {
        "jobs.csv",
        "machines.csv",
        "timeline.csv",
    }


def test_baselines_beside_it(files: Path) -> None:
    result = run(files, "--baselines", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    names = ["always on", "sum of slots", "least waste"]
    assert list(told) == [str(files / "a.yaml"), *names]
    assert all(each["jobs"] == 2 for each in told.values())
    table = run(files, "--baselines").stdout.splitlines()[0]
    assert all(name in table for name in names)


@pytest.mark.slow
def test_curves_are_drawn(files: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `simulate`)")
    result = run(files, "--plot", str(files / "out"))
    assert result.exit_code == 0, result.output
    for name in ("slots.png", "waits.png"):
        assert (files / "out" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--checkpoint-every", "soon"], "is not a duration"),
        (["--checkpoint-every", "0"], "0 is less than 1s"),
        (["--outages", "missing.csv"], "missing.csv: No such file or directory"),
    ],
)
def test_bad_options(files: Path, options: list[str], told: str) -> None:
    result = run(files, *options)
    assert result.exit_code != 0
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from,until_s\n", "line 1: column from_s is missing"),
        ("from_s,until_s\n1,x\n", "line 2: until_s 'x' is no number of seconds"),
        ("from_s,until_s\n5,5\n", "line 2: until_s 5 must be after from_s 5"),
        ("from_s,until_s,market\n1,2,free\n", "line 2: market 'free' is unknown"),
    ],
)
def test_bad_outages(files: Path, text: str, told: str) -> None:
    (files / "outages.csv").write_text(text)
    result = run(files, "--outages", str(files / "outages.csv"))
    assert result.exit_code == 1
    assert told in result.stderr


def test_an_outage_makes_jobs_wait(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    (files / "outages.csv").write_text("from_s,until_s\n0,600\n")
    result = run(files, "--outages", str(files / "outages.csv"), "--json")
    (told,) = json.loads(result.stdout).values()
    assert told["waits"]["p50_s"] >= 600.0
    assert told["refused_launches"] > 0
    assert not caplog.records, "each refusal would be a line"


def test_a_file_without_an_elastic_pool(files: Path) -> None:
    (files / "static.yaml").write_text("resource_pools: [{pool_name: rack}]\n")
    result = run(files, config="static.yaml")
    assert result.exit_code == 1
    assert "no pool has a provider: say how many agents are there (--agents)" in result.stderr


def test_a_rack_without_a_provider_takes_what_its_pool_cannot_start(files: Path) -> None:
    (files / "clouds.yaml").write_text(CLOUDS)
    (files / "jobs.csv").write_text(
        "arrival_s,gpus,duration_s,job_id,pool\n0,1,3600,a,spot\n0,16,60,b,rack\n"
    )
    (files / "outages.csv").write_text("from_s,until_s\n0,7200\n")
    options = ("--outages", str(files / "outages.csv"), "--json", "--csv", str(files / "out"))
    agents = ("--agents", "rack=2x8", "--agents", "rack=1x4")
    result = run(files, *options, *agents, config="clouds.yaml")
    assert result.exit_code == 0, result.stderr
    assert "does not fall back" not in result.stderr
    (told,) = json.loads(result.stdout).values()
    assert (told["jobs"], told["fell_back"], told["usd"]) == (2, 1, 0.0)
    assert told["waits"]["longest_s"] < 1800, "the other cloud was tried first and failed"
    with (files / "out" / "jobs.csv").open(newline="") as file:
        ran = {row["job_id"]: row["ran_in"] for row in csv.DictReader(file)}
    assert ran == {"a": "rack", "b": "rack"}


@pytest.mark.parametrize(
    ("agents", "told"),
    [
        ("rack", "'rack' is not POOL=COUNTxSLOTS, like rack=4x8"),
        ("rack=0x8", "'rack=0x8' is not POOL=COUNTxSLOTS"),
        ("rack=20001x8", "at most 20000 agents"),
        ("rakc=1x8", "--agents: there is no resource pool 'rakc' (there are: spot, google, rack)"),
        ("spot=1x8", "--agents: pool 'spot' has a provider, which brings up its agents"),
    ],
)
def test_agents_that_cannot_be_there(files: Path, agents: str, told: str) -> None:
    (files / "clouds.yaml").write_text(CLOUDS)
    result = run(files, "--agents", agents, config="clouds.yaml")
    assert result.exit_code == 1
    assert told in " ".join(result.stderr.split())


CLOUDS = """
resource_pools:
  - pool_name: spot
    max_instances: 4
    fall_back_to: [google, rack]
    fall_back_after: 2m
    provider: {type: aws, instance_type: g5.xlarge, spot: true, boot_time: 90s, image_id: ami-0123456789abcdef0}
  - pool_name: google
    max_instances: 2
    provider:
      type: gcp
      project: acme-ml-1
      instance_type: {machine_type: n1-standard-8, gpu_type: nvidia-tesla-t4, gpu_num: 2}
  - pool_name: rack
"""


def test_pools_of_clouds_by_their_catalogue_and_prices_without_asking_them(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AWS_REGION", "AWS_DEFAULT_REGION", "CLOUDSDK_COMPUTE_ZONE"):
        monkeypatch.delenv(variable, raising=False)
    (files / "clouds.yaml").write_text(CLOUDS)
    (files / "jobs.csv").write_text(
        "arrival_s,gpus,duration_s,job_id,pool\n0,1,3600,a,spot\n0,2,3600,b,google\n0,3,10,c,spot\n"
    )
    result = run(files, "--json", "--csv", str(files / "out"), config="clouds.yaml")
    assert result.exit_code == 0, result.stderr
    (told,) = json.loads(result.stdout).values()
    assert (told["jobs"], told["refused_jobs"], told["fell_back"]) == (3, 0, 0)
    assert told["usd"] > 0
    with (files / "out" / "machines.csv").open(newline="") as file:
        machines = list(csv.DictReader(file))
    kinds = {(row["pool"], row["instance_type"], row["market"]) for row in machines}
    assert ("spot", "g5.xlarge", "spot") in kinds
    assert any(pool == "google" and "n1-standard-8" in name for pool, name, _ in kinds)
    assert "work of pool spot does not fall back to rack" in result.stderr


G5 = """
resource_pools:
  - pool_name: gpu
    max_instances: 100
    network_gbps_per_slot: {need}
    providers:
"""
G5_TYPE = "      - {type: aws, instance_type: SIZE, zones: [us-east-1a], image_id: ami-0123456789abcdef0}\n"


@pytest.mark.parametrize(
    ("need", "bought"), [(10, {"g5.xlarge": 1, "g5.48xlarge": 1}), (0, {"g5.xlarge": 9})]
)
def test_a_job_of_8_slots_on_aws_is_one_machine_unless_its_network_costs_nothing(
    files: Path, need: float, bought: dict[str, int]
) -> None:
    sizes = ("g5.xlarge", "g5.12xlarge", "g5.48xlarge")
    types = "".join(G5_TYPE.replace("SIZE", size) for size in sizes)
    (files / "g5.yaml").write_text(G5.format(need=need) + types)
    (files / "jobs.csv").write_text("arrival_s,gpus,duration_s\n0,8,3600\n0,1,3600\n")
    result = run(files, "--csv", str(files / "out"), config="g5.yaml")
    assert result.exit_code == 0, result.stderr
    with (files / "out" / "machines.csv").open(newline="") as file:
        assert Counter(row["instance_type"] for row in csv.DictReader(file)) == bought
    assumed = "assumes 1 slot on 1 x g5.xlarge, 8 slots on 8 x g5.xlarge"
    assert assumed in " ".join(result.stderr.split()), "no settings are cheaper, whatever it costs"


def test_an_outage_in_one_cloud_sends_work_to_the_other(files: Path) -> None:
    (files / "clouds.yaml").write_text(CLOUDS)
    (files / "jobs.csv").write_text("arrival_s,gpus,duration_s,pool\n0,1,3600,spot\n")
    (files / "outages.csv").write_text("from_s,until_s,instance_type\n0,7200,g5.xlarge\n")
    options = ("--outages", str(files / "outages.csv"), "--json")
    result = run(files, *options, config="clouds.yaml")
    assert result.exit_code == 0, result.stderr
    (told,) = json.loads(result.stdout).values()
    assert told["fell_back"] == 1
    assert told["waits"]["longest_s"] < 7200
