"""What machines cost by Google's billing catalogue, which prices their parts: cores, memory, GPUs.

Types that bring disks of their own (A3, A4, A2 ultra) and shared cores are left to the price book: their parts are not
all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from provisioner.money.fresh_prices import FreshPrice
from provisioner.providers.gcp.catalogue import TypeFacts
from provisioner.providers.gcp.client import GcpClient
from provisioner.providers.gcp.offers import CLOUD
from provisioner.sections.gcp import GcpMachine
from provisioner.types import Market
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping

SOURCE = "Google billing catalogue"
COMPUTE_ENGINE = "services/6F81-5844-456A"
PAGE = 5000
_MARKETS = {"OnDemand": Market.ON_DEMAND, "Preemptible": Market.SPOT}
_PART = re.compile(
    r"(?:Spot )?(?:Preemptible )?(?P<family>[A-Z]\d[A-Z]?)(?: Predefined)? Instance (?P<part>Core|Ram) running in .*"
)
_GPU = re.compile(
    r"Nvidia (?:Tesla )?(?P<gpu>[A-Z]\d+(?: \d+GB)?) GPU (?:attached to Spot Preemptible VMs )?running in .*"
)
_SUM_OF_PARTS = re.compile(
    r"(n1|n2|e2|c3)-(standard|highmem|highcpu)-\d+|a2-(highgpu|megagpu)-\d+g|g2-standard-\d+"
)
_GPUS = {"nvidia-l4": "L4", "nvidia-tesla-a100": "A100", "nvidia-a100-80gb": "A100 80GB"}

Parts = Mapping[tuple[Market, str], float]
"""Market and `N1 Core`, `N1 Ram` (of a GiB), or the name of a GPU -> USD an hour."""


async def list_prices(
    client: GcpClient,
    region: str,
    bought: Iterable[tuple[GcpMachine, TypeFacts]],
    today: date,
) -> Sequence[FreshPrice]:
    """Raises GceError, OSError."""
    parts = await client.get_all(
        f"v1/{COMPUTE_ENGINE}/skus", "skus", lambda page: list(_parts(page, region)), pageSize=PAGE
    )
    prices: dict[tuple[Market, str], float] = {}
    for key, usd in parts:
        prices[key] = max(usd, prices.get(key, 0.0))  # of several the dearest
    found = {
        (market, name): usd
        for machine, facts in bought
        for market in (Market.ON_DEMAND, Market.SPOT)
        for name, usd in _sums(machine, facts, market, prices)
    }
    return [
        FreshPrice(
            cloud=CLOUD,
            region=region,
            name=name,
            market=market,
            usd_per_hour=usd,
            as_of=today,
            source=SOURCE,
        )
        for (market, name), usd in sorted(found.items())
    ]


def _parts(skus: Sequence[JsonMapping], region: str) -> Iterator[tuple[tuple[Market, str], float]]:
    for sku in skus:
        market = _MARKETS.get(sku.get("category", {}).get("usageType", ""))
        if market is None or region not in sku.get("serviceRegions", ()):
            continue
        text = sku.get("description", "")
        part, gpu = _PART.fullmatch(text), _GPU.fullmatch(text)
        name = f"{part['family']} {part['part']}" if part else gpu["gpu"] if gpu else ""
        usd = _usd(sku)
        if name and usd > 0:
            yield (market, name), usd


def _usd(sku: JsonMapping) -> float:
    """Of its last tier: the first is free for some. Raises ProviderError for another currency."""
    tiers = [
        tier
        for info in sku.get("pricingInfo", ())
        for tier in info.get("pricingExpression", {}).get("tieredRates", ())
    ]
    if not tiers:
        return 0.0
    price = tiers[-1]["unitPrice"]
    currency = price.get("currencyCode", "USD")
    if currency != "USD":
        raise ProviderError(f"Google's billing catalogue answers in {currency}, not in USD")
    return int(price.get("units", 0)) + int(price.get("nanos", 0)) / 1e9


def _sums(
    machine: GcpMachine, facts: TypeFacts, market: Market, parts: Parts
) -> Iterator[tuple[str, float]]:
    """The machine, and what is added to it; left out where a part has no price."""
    name = machine.machine_type
    gpu, _ = machine.added
    family = name.partition("-")[0].upper()
    if _SUM_OF_PARTS.fullmatch(name):
        wanted = [(f"{family} Core", facts.cpus), (f"{family} Ram", facts.memory_mib / 1024)]
        if facts.gpus and not gpu:
            wanted.append((_GPUS.get(facts.gpu, facts.gpu), facts.gpus))
        if all((market, part) in parts and amount for part, amount in wanted):
            yield name, sum(parts[market, part] * amount for part, amount in wanted)
    part = gpu.removeprefix("nvidia-tesla-").upper()
    if gpu and (market, part) in parts:
        yield gpu, parts[market, part]
