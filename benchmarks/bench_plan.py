"""How long one `plan()` takes, against the budgets of the design.

Ten instance types in six zone-markets, a pool of 1,000 nodes (a tenth booting, most of the rest busy), and waiting
gangs whose sizes follow the mix of a public trace: mostly 1 slot, then 8, 4, 2 and several nodes. `shapes` is how many
different gangs there are: sizes, one-agent gangs, gangs that must avoid some agents.

The largest case, 100,000 gangs x 20 types x 10,000 nodes, has no budget: it is printed with the exponent of its growth
over the case of 10,000 gangs. Beside it Ray plans 100 gangs on 100 nodes (extra `bench`; skipped without it).
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import sys
import time
import tracemalloc
from math import inf, log

from benchmarks.arguments import arguments, exit_code, sized
from benchmarks.calibration import slower
from benchmarks.ray_planner import ray_plan
from provisioner.capacity.memory import CapacityMemory
from provisioner.capacity.refusals import BlockKind, scope_of
from provisioner.money.expected_cost import NETWORK_GBPS_PER_SLOT
from provisioner.planning.plan_types import Machine, MachinePhase, Plan, PlanInput, PoolInput
from provisioner.planning.planner import plan
from provisioner.types import Gang, Market, Node, Offer, OfferKey, PoolDemand, PoolSettings

TYPES = [
    ("g4-1", 1, 0.53),
    ("g4-4", 4, 3.91),
    ("g5-1", 1, 1.01),
    ("g5-4", 4, 5.67),
    ("g5-8", 8, 16.29),
    ("p3-1", 1, 3.06),
    ("p3-4", 4, 12.24),
    ("p3-8", 8, 24.48),
    ("p4-8", 8, 21.96),
    ("g6-2", 2, 2.30),
]
NETWORK_GBPS = {"g4-1": 5, "g4-4": 50, "g5-1": 2.5, "g5-4": 40, "g5-8": 100, "p3-1": 10, "p3-4": 10, "p3-8": 25,
                "p4-8": 400, "g6-2": 20}  # fmt: skip
ZONE_MARKETS = [(zone, market) for zone in "abc" for market in (Market.ON_DEMAND, Market.SPOT)]
SIZES = [1] * 62 + [2] * 7 + [4] * 12 + [8] * 13 + [16] * 4 + [32] * 2
NOW = 1_000_000.0
CASES = sized(
    [(1_000, 100, 1_000, 10.0), (10_000, 100, 1_000, 60.0), (10_000, 500, 1_000, 300.0)],
    [(20, 10, 10, 10.0), (40, 10, 10, 60.0)],
)
"""gangs, shapes, nodes, budget in ms."""
LARGEST = sized((100_000, 100, 10_000), (80, 10, 20))
WITH_RAY = sized((100, 20, 100), (12, 10, 5))


def make_offers(doubled: bool = False) -> tuple[Offer, ...]:
    """`doubled`: each type a second time, a little dearer, under another name."""
    dearer = [(f"{name}x", slots, price * 1.07) for name, slots, price in TYPES]
    types = [*TYPES, *dearer] if doubled else TYPES
    return tuple(
        Offer(
            key=OfferKey(
                provider="cloud", region="r1", zone=zone, instance_type=name, market=market
            ),
            slots=slots,
            usd_per_hour=price * (0.35 if market is Market.SPOT else 1.0),
            boot_s=180.0,
            gpu_model=name[:2],
            network_gbps=NETWORK_GBPS[name.rstrip("x")],
        )
        for name, slots, price in types
        for zone, market in ZONE_MARKETS
    )


def make_gangs(rng: random.Random, count: int, shapes: int, agents: list[str]) -> tuple[Gang, ...]:
    """Gangs of exactly `shapes` shapes; the plain ones are the most frequent."""
    plain = [(size, False, frozenset[str]()) for size in SIZES]
    special = [(8 * nodes, False, frozenset[str]()) for nodes in range(5, 5 + shapes // 3)]
    while len(special) < shapes - len(set(plain)):
        avoid = frozenset(rng.sample(agents, 2))
        special.append((rng.choice(SIZES[:94]), rng.random() < 0.5, avoid))
    gangs = []
    for i in range(count):
        odd = i < len(special) or rng.random() < 0.05
        slots, single, avoid = special[i % len(special)] if odd else rng.choice(plain)
        gangs.append(
            Gang(
                request_id=f"r{i}",
                job_id=f"j{i % 97}",
                pool="gpu",
                slots=slots,
                single_agent=single,
                blocked_agents=avoid,
                since=NOW - rng.random() * 3600,
            )
        )
    return tuple(gangs)


def make_input(
    gangs: int, shapes: int, nodes: int, seed: int = 1, *, doubled: bool = False
) -> PlanInput:
    rng = random.Random(seed)
    offers = make_offers(doubled)
    machines, seen = [], []
    for i in range(nodes):
        offer = rng.choice(offers)
        booting = rng.random() < 0.1
        used = (
            0 if booting else (offer.slots if rng.random() < 0.7 else rng.randint(0, offer.slots))
        )
        machines.append(
            Machine(
                name=f"i{i}",
                offer=offer,
                phase=MachinePhase.COMING if booting else MachinePhase.UP,
                age_s=60.0,
                ready_in_s=120.0 if booting else 0.0,
                idle_s=None if booting or used else rng.choice([0.0, 30.0, 600.0]),
            )
        )
        if not booting:
            free = offer.slots - used
            seen.append(
                Node(
                    agent_id=f"i{i}",
                    pool="gpu",
                    slots=offer.slots,
                    free_slots=free,
                    instance_id=f"i{i}",
                    busy=used > 0,
                )
            )
    memory = CapacityMemory()
    for offer in rng.sample(offers, 12):
        memory = memory.refused(
            scope_of(BlockKind.CAPACITY, offer), BlockKind.CAPACITY, "none left", now=NOW
        )
    waiting = make_gangs(rng, gangs, shapes, [node.agent_id for node in seen])
    pool = PoolInput(
        settings=PoolSettings(
            pool="gpu",
            max_instances=200_000,
            max_idle_s=300.0,
            network_gbps_per_slot=NETWORK_GBPS_PER_SLOT,
        ),
        offers=offers,
        demand=PoolDemand(pool="gpu", gangs=waiting, nodes=tuple(seen)),
        machines=tuple(machines),
    )
    return PlanInput(now=NOW, pools=(pool,), memory=memory)


def measure(state: PlanInput, rounds: int = 7) -> tuple[float, Plan]:
    """Median CPU milliseconds of one plan."""
    took = []
    result = plan(state)
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        result = plan(state)
        took.append((time.process_time() - start) * 1000)
    return statistics.median(took), result


def peak_mib(state: PlanInput) -> float:
    """Peak memory of one plan, its input apart."""
    gc.collect()
    tracemalloc.start()
    plan(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def shapes_in(state: PlanInput) -> int:
    return len({(g.slots, g.single_agent, g.blocked_agents) for g in state.pools[0].demand.gangs})


def usd_of(result: Plan) -> float:
    return sum(launch.offer.usd_per_hour * launch.count for launch in result.launches)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    as_json = parser.parse_args().json
    if not as_json:
        print(
            f"{'gangs':>7} {'shapes':>7} {'nodes':>6} {'ms':>8} {'budget':>7} {'ratio':>6} {'MiB':>6}"
        )
    took: dict[int, float] = {}
    worst = 0.0
    for gangs, shapes, nodes, budget_ms in [*CASES, (*LARGEST, None)]:
        large = budget_ms is None
        state = make_input(gangs, shapes, nodes, doubled=large)
        ms, result = measure(state, rounds=3 if large else 7)
        worst = max(worst, ms / (budget_ms or inf))
        assert len(result.reasons) == gangs
        took.setdefault(gangs, ms)
        row: dict[str, object] = {
            "gangs": gangs,
            "shapes": shapes_in(state),
            "nodes": nodes,
            "ms": round(ms, 2),
            "budget_ms": budget_ms,
            "ratio": None if budget_ms is None else round(ms / budget_ms, 2),
            "peak_mib": round(peak_mib(state), 1),
        }
        if large:
            row["exponent"] = round(log(ms / took[CASES[1][0]]) / log(gangs / CASES[1][0]), 2)
        if as_json:
            print(json.dumps({"bench": "plan", **row}))
            continue
        bound = f"{budget_ms:>7.0f} {ms / budget_ms:>6.2f}" if budget_ms else f"{'-':>7} {'-':>6}"
        grown = f"   grows with gangs to the power of {row['exponent']}" if large else ""
        print(
            f"{gangs:>7} {row['shapes']:>7} {nodes:>6} {ms:>8.2f} {bound} {row['peak_mib']:>6}{grown}"
        )
    beside_ray(as_json)
    return exit_code(worst <= slower())


def beside_ray(as_json: bool) -> None:
    state = make_input(*WITH_RAY)
    ms, result = measure(state)
    theirs = ray_plan(state)
    row: dict[str, object]
    if theirs is None:
        row = {"skipped": "Ray is not installed: pip install 'windlass-cluster[bench]'"}
    else:
        row = {
            "gangs": WITH_RAY[0],
            "nodes": WITH_RAY[2],
            "ms": round(ms, 2),
            "usd_per_hour": round(usd_of(result), 2),
            "ray": theirs.version,
            "ray_ms": round(theirs.cpu_s * 1000, 1),
            "ray_usd_per_hour": round(theirs.usd_per_hour, 2),
        }
    print(json.dumps({"bench": "plan_ray", **row}))


if __name__ == "__main__":
    sys.exit(main())
