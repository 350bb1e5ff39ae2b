"""The pages for Prometheus: readable by its own parser, true, and of few labels."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from master.api.cluster.metric_families import Picture, own, page, published
from master.api.cluster.monitoring import scrape_targets
from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.counters import FleetCounters
from provisioner.fleet.intents import IntentRecord
from provisioner.fleet.state import Launched, LaunchRefused, LaunchUnanswered
from provisioner.types import CostView, InstanceView, Market, OfferKey
from rm_backends.views import AgentView
from tests.fakes.api_world import ASHA, ApiWorld, api_world
from tests.fakes.fleet_world import an_offer

ROOT = Path(__file__).parents[3]
STATE, PROCESS = "/prom/det-state-metrics", "/debug/prom/metrics"
TARGETS = "/prom/det-http-sd-config"
Samples = dict[str, dict[tuple[str, ...], float]]


def samples(text: str) -> Samples:
    """Name -> values of its labels -> value."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[_key(sample.labels)] = sample.value
    return found


def _key(labels: Mapping[str, str]) -> tuple[str, ...]:
    """In the order of their names."""
    return tuple(labels[name] for name in sorted(labels))


def shown(picture: Picture) -> Samples:
    return samples(page([*published(picture), *own(picture)]).decode())


async def state(world: ApiWorld) -> Samples:
    response = await world.call("GET", STATE)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain")
    return samples(response.text)


async def test_what_runs_is_told_with_the_published_names(world: ApiWorld) -> None:
    await world.add_agent(slots=1)
    id_ = await world.create()
    run = await world.run_of(id_)
    await world.create(ASHA)
    told = await state(world)
    (container,) = (each.container.container_id for each in run.containers)
    assert told["det_container_id_allocation_id"] == {(run.id, container): 1.0}
    assert told["det_allocation_id_task_id_task_actor"] == {(run.id, "", run.task_id): 1.0}
    assert told["det_experiment_id_label"] == {(str(id_), "first"): 1.0}
    assert len(told["det_job_id_experiment_id"]) == 2
    assert told["windlass_slots"] == {("default", "used"): 1.0, ("default", "free"): 0.0}
    assert told["windlass_agents"] == {("default",): 1.0}
    assert sum(told["windlass_waiting_requests"].values()) == 4.0
    await world.finish(run)
    assert "det_container_id_allocation_id" not in await state(world)


async def test_machines_and_money_are_told(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        told = await state(world)
        assert told["windlass_instances"] == {("spot", "default", "booting"): 1.0}
        assert told["windlass_usd_per_hour"] == {("default",): 2.0}
        assert told["windlass_usd_total"] == {(): 0.25}
        assert told["windlass_plan_seconds_count"] == {(): 0.0}


async def test_the_process_is_told(world: ApiWorld) -> None:
    response = await world.call("GET", PROCESS)
    assert samples(response.text)["process_resident_memory_bytes"][()] > 1e6


async def test_exporters_are_found_on_every_agents_machine(world: ApiWorld) -> None:
    await world.add_agent(slots=1)
    (agent,) = world.services.cluster.agents()
    response = await world.call("GET", TARGETS)
    assert response.headers["content-type"] == "application/json"
    assert response.json() == [
        {
            "targets": [f"{agent.address}:8080", f"{agent.address}:9400"],
            "labels": {"det_agent_id": agent.id, "det_resource_pool": "default"},
        }
    ]


def test_an_address_of_ipv6_is_in_brackets_and_one_without_is_left_out() -> None:
    agents = [
        AgentView(id=id_, pool="p", address=address, registered=datetime.now(UTC), slots=())
        for id_, address in (("b", "fd00::7"), ("a", "node-1"), ("c", ""))
    ]
    assert [each["targets"][1] for each in scrape_targets(agents)] == [
        "node-1:9400",
        "[fd00::7]:9400",
    ]


@pytest.mark.parametrize("path", [STATE, PROCESS, TARGETS])
async def test_nobody_reads_them_without_a_login(world: ApiWorld, path: str) -> None:
    assert (await world.call("GET", path, token="wrong")).status_code == 401


async def test_they_can_be_switched_off(tmp_path: Path) -> None:
    async with api_world(tmp_path, settings={"observability.enable_prometheus": False}) as world:
        await world.login()
        for path in (STATE, PROCESS, TARGETS):
            assert "enable_prometheus" in await world.refused(404, "GET", path)


NO_COST = CostView(
    spent_usd=0.0,
    usd_per_hour=0.0,
    peak_instances=0,
    peak_usd_per_hour=0.0,
    first_launch_at=None,
    always_on_usd=0.0,
)


def test_the_dashboard_asks_for_what_the_master_says() -> None:
    dashboard = json.loads((ROOT / "docs/grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(asked) >= len(dashboard["panels"]) > 10
    labels = {
        family.name: {"le", *vars(family)["_labelnames"]}
        for family in own(Picture(cost=NO_COST, counters=FleetCounters()))
    }
    for expression in asked:
        names = re.findall(r"(windlass_\w+?)(?:_total|_bucket)?\b", expression)
        used = set(re.findall(r"(\w+)=~?\"", expression)) - {"job"}
        used |= {
            one.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for one in by.split(",")
        }
        for name in names:
            assert used <= labels[name], expression
        assert names or "process_resident_memory_bytes" in expression


def an_intent() -> IntentRecord:
    offer = an_offer(4, market=Market.SPOT)
    return IntentRecord(
        id="n", pool="gpu", offer=offer, token="t", generation=1, created_at=0.0, claims=((), ())
    )


def test_what_the_provisioner_did_is_counted() -> None:
    counters = FleetCounters()
    intent = an_intent()
    counters.note([Launched(intent=intent, instance_ids=("a", "b"))])
    counters.note([LaunchRefused(intent=intent, kind=BlockKind.QUOTA, message="no")] * 3)
    counters.note([LaunchUnanswered(intent=intent, message="?")])
    for seconds in (0.0005, 0.02, 0.03, 99.0):
        counters.plans.add(seconds)
    told = shown(Picture(counters=counters))
    assert told["windlass_launched_instances_total"] == {("spot", "gpu"): 2.0}
    assert told["windlass_launch_refusals_total"] == {("quota",): 3.0, ("unanswered",): 1.0}
    buckets = told["windlass_plan_seconds_bucket"]
    assert (buckets[("0.001",)], buckets[("0.02",)], buckets[("10.0",)]) == (1.0, 2.0, 3.0)
    assert buckets[("+Inf",)] == told["windlass_plan_seconds_count"][()] == 4.0
    assert told["windlass_plan_seconds_sum"][()] == pytest.approx(99.0505)


def test_a_thousand_machines_are_few_samples() -> None:
    offer = OfferKey(provider="site", instance_type="gpu")
    machines = [
        InstanceView(
            id=f"i-{number}",
            pool=f"pool-{number % 2}",
            offer=offer,
            slots=8,
            usd_per_hour=1.0,
            state=("ready", "booting")[number % 3 == 0],
            created_at=0.0,
            usd=0.1,
        )
        for number in range(1000)
    ]
    told = shown(Picture(instances=machines, cost=NO_COST))
    assert sum(told["windlass_instances"].values()) == 1000.0
    assert len(told["windlass_instances"]) == 4
    assert told["windlass_usd_per_hour"] == {("pool-0",): 500.0, ("pool-1",): 500.0}


def test_names_of_people_break_no_line() -> None:
    cruel = 'a"b\\c\nd'
    machine = InstanceView(
        id="i",
        pool=cruel,
        offer=OfferKey(provider="site"),
        slots=1,
        usd_per_hour=1.0,
        state="ready",
        created_at=0.0,
    )
    assert ("on_demand", cruel, "ready") in shown(Picture(instances=[machine]))[
        "windlass_instances"
    ]
