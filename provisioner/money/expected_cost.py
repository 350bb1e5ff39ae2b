"""What an hour of work on an offer is expected to cost, its price and all that comes with it. Pure.

Of so many machines for a run of R hours (elasticity's expected cost, divided by R):

    price                                              the run
    + price x boot / R                                 machines are paid for while they boot
    + a share of a slot's price x slots x wait / R     somebody waits while they boot, or for their delivery
    + price x interruptions x work lost by one         on spot: what was done since the last checkpoint, and a boot

A run over several machines takes longer, for they exchange gradients by the network: what depends on its length costs
`slowdown` as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from provisioner.money.prices import usd_per_slot_hour
from provisioner.types import Market, Offer

DEFAULT_RUN_S = 3600.0
"""How long work runs of which nobody knows."""
LEAST_RUN_S = 60.0
WAIT_SHARE = 0.1
"""What a slot that is waited for costs, as a share of what it costs when it works."""
LOST_S = 960.0
"""Work that an interruption loses: half of the time between checkpoints (30 min), and a restart (1 min)."""
NETWORK_GBPS_PER_SLOT = 10.0
"""With so much network for each GPU, a step of work over many machines exchanges gradients as long as it computes.

In a ring all-reduce each of n peers sends 2 (n - 1) / n times the gradients: in 16 bits at most 32 bits for each
parameter. Computing takes 6 operations for each parameter and token. So exchange / compute = 32 / 6 x speed / (tokens
of a step x bandwidth), however large the model is. For GPUs that reach 40 TFLOP/s (A10G, L4) at 20,000 tokens of a
step each, both take as long at 10 Gbit/s. Faster GPUs need more; larger steps, and exchange while computing, less.
"""


def run_bucket_s(run_s: float | None) -> float:
    """Run times as powers of two: work of about the same length is planned together."""
    if run_s is None:
        return DEFAULT_RUN_S
    whole = max(1, round(max(run_s, LEAST_RUN_S) / LEAST_RUN_S))
    return LEAST_RUN_S * float(1 << (whole.bit_length() - 1))


def slot_usd_of(offers: Iterable[Offer]) -> float:
    """What an hour of a slot costs that is not waited for: the least on-demand price; 0 where there is none."""
    on_demand = (usd_per_slot_hour(o) for o in offers if o.key.market is Market.ON_DEMAND)
    least = min(on_demand, default=inf)
    return least if least < inf else 0.0


def slowdown(offer: Offer, machines: int, gbps_per_slot: float) -> float:
    """How much longer a run takes over so many of its machines than on one that is as large.

    1 where nobody knows: of machines without GPUs, or whose network is unknown.
    """
    gbps = offer.network_gbps if offer.gpu_model else None
    if machines < 2 or not (gbps_per_slot and gbps and offer.slots):
        return 1.0
    each_gbps = gbps / offer.slots
    return 1.0 + gbps_per_slot / each_gbps * (machines - 1) / machines


def usd_per_hour(
    offer: Offer,
    *,
    run_s: float,
    boot_s: float,
    slot_usd: float,
    now: float,
    machines: int = 1,
    slower: float = 1.0,
) -> float:
    """Of each of `machines` of one gang. `slot_usd`: what an hour of a slot costs that is not waited for; `slower`: the
    slowdown of the run. An hour is one of work that nothing slows down.
    """
    price = offer.usd_per_hour
    delay_s = 0.0 if offer.starts_at is None else max(0.0, offer.starts_at - now)
    waiting = WAIT_SHARE * slot_usd * offer.slots * (boot_s + delay_s) / run_s
    # One interruption stops the whole gang.
    lost = price * offer.interruptions_per_hour * machines * (LOST_S + boot_s) / 3600.0
    return (price + lost) * slower + price * boot_s / run_s + waiting
