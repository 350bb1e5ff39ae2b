"""Lists and descriptions of the command line: experiments, offers, machines, costs, and what waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fakes.client_cli import TRIAL, det, on_a_terminal

if TYPE_CHECKING:
    from client_scripted_master import ScriptedMaster

LISTS = [
    (["e", "list"], "digits"),
    (["experiment", "ls", "-a"], "digits"),
    (["e", "lt", "7"], '{"lr": 0.1}'),
    (["e", "list-checkpoints", "7"], "uuid-1"),
    (["a", "list"], "gpu-1"),
    (["rp", "list"], "default"),
    (["t", "describe", "11"], "validation"),
]


@pytest.fixture
def full(cluster: ScriptedMaster) -> ScriptedMaster:
    page = {"endIndex": 1, "total": 1}
    checkpoint = {
        "uuid": "uuid-1",
        "state": "STATE_COMPLETED",
        "metadata": {"steps_completed": 4},
        "resources": {"a": "3", "b": "4"},
        "training": {"trialId": 11},
    }
    workload = {"validation": {"totalBatches": 4, "metrics": {"avgMetrics": {"loss": 1}}}}
    agent = {
        "id": "gpu-1",
        "resourcePools": ["default"],
        "enabled": True,
        "slots": {"0": {"device": {"type": "TYPE_CUDA"}, "container": {"id": "c"}}, "1": {}},
    }
    cluster.on(
        "GET",
        "/api/v1/experiments/7/checkpoints",
        {"checkpoints": [checkpoint], "pagination": page},
    )
    cluster.on("GET", "/api/v1/trials/11/workloads", {"workloads": [workload], "pagination": page})
    cluster.on("GET", "/api/v1/agents", {"agents": [agent]})
    pool = {"name": "default", "type": "RESOURCE_POOL_TYPE_STATIC", "numAgents": 1}
    cluster.on("GET", "/api/v1/resource-pools", {"resourcePools": [pool]})
    return cluster


@pytest.mark.parametrize(
    ("options", "omitted"),
    [([], True), (["--csv"], True), (["--json", "--columns", "id"], True), (["--json"], False)],
)
def test_configurations_are_asked_for_only_where_they_are_printed(
    cluster: ScriptedMaster, options: list[str], omitted: bool
) -> None:
    assert det(cluster, "e", "list", *options).exit_code == 0
    (asked,) = (a for a in cluster.asked if a.path == "/api/v1/experiments")
    assert ("omitConfig" in asked.query) == omitted


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "text"), LISTS)
def test_every_list_prints_plain_text_json_and_csv(
    arguments: list[str], text: str, full: ScriptedMaster
) -> None:
    plain = det(full, *arguments)
    assert plain.exit_code == 0, plain.output
    assert text in plain.stdout
    assert "\x1b" not in plain.stdout
    assert json.loads(det(full, *arguments, "--json").stdout)
    csv_lines = det(full, *arguments, "--csv").stdout.splitlines()
    assert len(csv_lines) == 2
    assert csv_lines[0].count(",") >= 3


def test_describe_shows_what_it_costs_and_will(full: ScriptedMaster) -> None:
    assert "cost" not in det(full, "e", "describe", "7").stdout
    cost = {"usd": 2.5, "usdPerHour": 0.4, "forecastUsd": 10.0, "basis": "25.0% done"}
    full.on("GET", "/api/v1/windlass/experiments/7/cost", cost)
    shown = det(full, "e", "describe", "7").stdout
    assert "cost so far        2.50 USD" in shown
    assert "cost per hour now  0.4000 USD" in shown
    assert "cost forecast      10.00 USD (25.0% done)" in shown
    assert json.loads(det(full, "e", "describe", "7", "--json").stdout)["cost"] == cost


def test_costs_of_the_fleet_are_summed_up_by_what_is_asked(full: ScriptedMaster) -> None:
    row = {
        "busyUsd": 3.0,
        "bootUsd": 1.0,
        "idleUsd": 0.5,
        "lostUsd": 0.0,
        "stoppedUsd": 0.25,
        "machineHours": 2.0,
    }
    rows = [{"name": "ann", "usd": 4.0, **row}, {"name": "", "usd": 0.5, **row}]
    answer = {"by": "user", "month": "2026-11", "rows": rows, "total": {**rows[0], "name": "total"}}
    full.on("GET", "/api/v1/windlass/fleet/costs", answer)
    shown = det(full, "fleet", "costs", "--by", "user", "--month", "2026-11").stdout.splitlines()
    assert shown[0].split()[:2] == ["User", "USD"]
    amounts = ["4.0000", "3.0000", "1.0000", "0.5000", "0.0000", "0.2500", "2.00"]
    assert shown[1].split() == ["ann", *amounts]
    assert shown[2].startswith("(nobody)")
    assert shown[3].startswith("total")
    (asked,) = full.calls("GET", "/api/v1/windlass/fleet/costs")
    assert asked.query == {"by": ["user"], "month": ["2026-11"]}


OFFER = {
    "name": "site/east-1/gpu-8/spot",
    "pool": "default",
    "provider": "site",
    "region": "",
    "zone": "east-1",
    "instanceType": "gpu-8",
    "market": "spot",
    "slots": 8,
    "gpuModel": "H200",
    "gpuMemoryMib": 144384,
    "cpus": None,
    "memoryMib": None,
    "usdPerHour": 2.0,
    "state": "refused",
    "reason": "InsufficientInstanceCapacity",
    "scope": {"provider": "site", "region": None, "zone": "east-1", "market": "spot"},
    "nextTryAt": "2026-11-22T15:00:00.000000Z",
    "bootS": 90.0,
    "bootIsLearned": True,
}
OPEN = {
    **OFFER,
    "name": "site/east-1/gpu-8/on_demand",
    "usdPerHour": None,
    "state": "open",
    "reason": "",
    "scope": None,
    "nextTryAt": None,
    "bootIsLearned": False,
}


def test_offers_show_what_may_be_bought_and_what_refuses(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet/offers", {"offers": [OFFER, OPEN]})
    _, refused, open_ = det(full, "fleet", "offers", "--utc").stdout.splitlines()
    for text in (
        "H200 141 GiB",
        " 2.00 ",
        " refused ",
        "2026-11-22 15:00:00 UTC",
        "site/east-1/spot",
    ):
        assert text in refused
    assert refused.endswith("InsufficientInstanceCapacity")
    assert "unknown" in open_
    assert "(not measured)" in open_
    assert json.loads(det(full, "fleet", "offers", "--json").stdout) == [OFFER, OPEN]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120, 200])
def test_offers_fit_a_terminal_and_say_what_they_leave_out(
    full: ScriptedMaster, columns: int
) -> None:
    """As a cloud names them: 58 characters of a name, two lines of a refusal."""
    name = "aws-us-east-1/us-east-1/us-east-1a/p6-b200.48xlarge/on-demand"
    real = OFFER | {
        "name": name,
        "pool": "compute-pool",
        "priceOrigin": "price book of 2025-07-01: estimated from us-east-1 (1.12 times its price)",
        "reason": "InsufficientInstanceCapacity: We currently do not have sufficient capacity " * 2,
        "scope": OFFER["scope"] | {"provider": "aws-us-east-1", "region": "us-east-1"},
    }
    full.on("GET", "/api/v1/windlass/fleet/offers", {"offers": [real]})
    lines = on_a_terminal(full, "fleet", "offers", columns=columns)
    assert max(len(line.rstrip()) for line in lines) <= columns
    shown = "\n".join(lines)
    assert "USD/h" in shown
    assert "2.00" in shown
    assert "was refused: InsufficientInstanceCapacity" in " ".join(shown.split())
    left_out = " ".join(shown.split()).partition("Left out to fit the terminal: ")[2]
    assert (columns == 80) <= ("Applies to" in left_out)
    piped = det(full, "fleet", "offers").stdout
    assert real["priceOrigin"] in piped
    assert name in piped


MACHINE = {
    "id": "i-12",
    "pool": "default",
    "offer": {key: OFFER[key] for key in ("provider", "region", "zone", "instanceType", "market")},
    "slots": 8,
    "usdPerHour": 2.0,
    "usd": 3.0,
    "state": "terminating",
    "activity": "ending",
    "reason": "idle for 5 min",
    "createdAt": "2026-11-22T13:00:00.000000Z",
    "readyAt": "2026-11-22T13:02:00.000000Z",
    "ageS": 5400.0,
    "idleS": None,
    "keptBecause": "",
    "keptUntil": None,
    "leavesAt": None,
    "leavesBecause": "",
}


def test_a_machine_without_work_says_why_it_is_kept_and_until_when(full: ScriptedMaster) -> None:
    kept = {
        "state": "ready",
        "activity": "idle",
        "reason": "",
        "idleS": 60.0,
        "keptBecause": "cheaper until then than another boot of 180 s",
        "keptUntil": "2026-11-22T13:04:00.000000Z",
    }
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [{**MACHINE, **kept}]})
    full.on("GET", "/api/v1/agents", {"agents": []})
    said = "kept until 2026-11-22 13:04:00 UTC: cheaper until then than another boot of 180 s"
    assert said in det(full, "fleet", "describe", "i-12", "--utc").stdout
    assert said in det(full, "fleet", "list", "--csv", "--utc").stdout


def test_a_machine_that_is_taken_back_says_when_and_why(full: ScriptedMaster) -> None:
    notice = {
        "leavesAt": "2026-11-22T13:04:00.000000Z",
        "leavesBecause": "spot interruption: terminate",
    }
    full.on("GET", "/api/v1/agents", {"agents": []})
    said = "taken back at 2026-11-22 13:04:00 UTC: spot interruption: terminate"
    for reason, shown in (("", said), ("idle for 5 min", f"idle for 5 min; {said}")):
        machine = {**MACHINE, **notice, "reason": reason}
        full.on("GET", "/api/v1/windlass/fleet", {"instances": [machine]})
        assert shown in det(full, "fleet", "list", "--csv", "--utc").stdout
        assert shown in det(full, "fleet", "describe", "i-12", "--utc").stdout


def test_a_machine_is_described_with_what_runs_on_it(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [MACHINE]})
    containers = {"c": {"id": "c", "parent": "7.1.1"}}
    full.on("GET", "/api/v1/agents", {"agents": [{"id": "i-12", "containers": containers}]})
    mine, other = ({"allocationId": f"7.{n}.1", "name": f"trial {n}"} for n in (1, 2))
    tasks = {"allocationIdToSummary": {"7.1.1": mine, "7.2.1": other}}
    full.on("GET", "/api/v1/tasks", tasks)
    lines = det(full, "fleet", "describe", "i-12", "--utc").stdout.splitlines()
    shown = {name.strip(): value for name, _, value in (line.partition("  ") for line in lines)}
    assert shown["offer"].strip() == "site/east-1/gpu-8/spot"
    assert shown["state"].strip() == "ending"
    assert shown["ready"].strip() == "2026-11-22 13:02:00 UTC"
    assert shown["cost so far"].strip() == "3.00 USD"
    assert shown["runs"].strip() == "trial 1"
    assert shown["reason"].strip() == "idle for 5 min"
    document = json.loads(det(full, "fleet", "describe", "i-12", "--json").stdout)
    assert document == {**MACHINE, "allocations": [mine]}


def test_an_unknown_machine_is_answered_with_the_nearest(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [MACHINE]})
    result = det(full, "fleet", "describe", "i-13")
    assert result.exit_code != 0
    assert "instance 'i-13' not found; nearest: i-12" in str(result.exception) + result.output


def test_a_retry_says_how_the_offer_stands(full: ScriptedMaster) -> None:
    full.on("POST", "/api/v1/windlass/fleet/offers/retry", {"offers": [OPEN]})
    result = det(full, "fleet", "retry", OPEN["name"])
    assert result.stdout == "Offer site/east-1/gpu-8/on_demand of pool default is open\n"
    (asked,) = full.calls("POST", "/api/v1/windlass/fleet/offers/retry")
    assert asked.body == {"offer": "site/east-1/gpu-8/on_demand"}


def test_describe_shows_what_it_waits_for(full: ScriptedMaster) -> None:
    result = det(full, "e", "describe", "7")
    assert "queued behind 3 jobs" in result.stdout
    assert json.loads(det(full, "e", "describe", "7", "--json").stdout)["trials"] == [TRIAL]


def test_columns_are_chosen_for_tables_csv_and_json(full: ScriptedMaster) -> None:
    shown = det(full, "e", "list", "--columns", "state,ID, waiting-for").stdout.splitlines()
    assert shown[0].split() == ["State", "ID", "Waiting", "for"]
    assert shown[1].split()[:2] == ["QUEUED", "7"]
    csv_lines = det(full, "e", "list", "--columns", "id,name", "--csv").stdout.splitlines()
    assert csv_lines == ["ID,Name", "7,digits"]
    documents = json.loads(det(full, "e", "list", "--columns", "id,waiting_for", "--json").stdout)
    assert documents == [{"id": 7, "waiting_for": "queued behind 3 jobs"}]


def test_rows_are_sorted_by_values_and_cut_afterwards(full: ScriptedMaster) -> None:
    agents = [
        {"id": name, "slots": {str(n): {} for n in range(count)}, "version": version}
        for name, count, version in (("a", 2, None), ("b", 10, "0.2"), ("c", 9, "0.1"))
    ]
    full.on("GET", "/api/v1/agents", {"agents": agents})

    def names(*arguments: str) -> list[str]:
        lines = det(full, "a", "list", "--columns", "agent", "--csv", *arguments).stdout
        return lines.splitlines()[1:]

    assert names() == ["a", "b", "c"]
    assert names("--sort", "slots") == ["a", "c", "b"], "as numbers"
    assert names("--sort", "-slots", "--limit", "1") == ["b"]
    assert names("--sort", "-version") == ["b", "c", "a"], "what has no value comes last"
    ids = [
        agent["id"]
        for agent in json.loads(det(full, "a", "list", "--sort=-slots", "--json").stdout)
    ]
    assert ids == ["b", "c", "a"]


@pytest.mark.parametrize("option", ["--columns", "--sort"])
def test_an_unknown_column_is_refused_with_those_there_are(
    option: str, full: ScriptedMaster
) -> None:
    refused = det(full, "rp", "list", option, "prize")
    assert refused.exit_code == 1
    assert f'{option}: there is no column "prize"; use pool, kind, scheduler' in refused.stderr


def test_a_machine_is_found_by_its_first_characters(full: ScriptedMaster) -> None:
    full.on("GET", "/api/v1/windlass/fleet", {"instances": [{"id": "i-1"}, {"id": "i-2"}]})
    several = det(full, "fleet", "describe", "i-")
    assert several.exit_code == 1
    assert "2 instance ids begin with 'i-': i-1, i-2" in several.stderr
    none = det(full, "fleet", "describe", "i-3").stderr
    assert "instance 'i-3' not found; nearest: i-" in none
