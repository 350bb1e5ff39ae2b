"""`python -m tools.prices`: ask the vendors for the prices of the bundled price book, and write it anew.

Run for each release, with credentials of AWS that allow `pricing:GetProducts`, and of a project of Google Cloud with
the Cloud Billing API. If one of them cannot be asked nothing is written. What a vendor does not name keeps its price
and its day.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from provisioner.money.fresh_prices import FreshPrice
from provisioner.money.price_book import BUNDLED, MachineType, PriceBook, PriceTable, parse
from provisioner.providers.aws import prices as of_aws
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.gcp import prices as of_gcp
from provisioner.providers.gcp.catalogue import TypeFacts
from provisioner.providers.gcp.client import GceError, GcpClient
from provisioner.providers.gcp.site import GcpSite
from provisioner.sections.gcp import GcpMachine
from provisioner.types import Market
from windlass.base.errors import WindlassError

SOURCE = (
    "On-demand prices of AWS's price list and Google's billing catalogue in the reference regions. "
    "Machines with as_of keep a price of that day. The price of another region is that of the reference region times a "
    "rough factor. Spot prices are not in this file. Machines without a price count as others with the same GPU."
)
_PER_LINE = ("types", "accelerators")


async def asked(
    table: PriceTable, account: AwsAccount, site: GcpSite, today: date
) -> Sequence[FreshPrice]:
    """Of everything in the table, in the region of `account` and of `site`. Raises as providers do."""
    aws, gcp = AwsClient(account), GcpClient(site)
    aws.open()
    gcp.open()
    try:
        of_ec2 = await of_aws.list_prices(aws, account.region, table.clouds["aws"].types, today)
        of_gce = await of_gcp.list_prices(gcp, site.region, _google(table), today)
    finally:
        aws.close()
        gcp.close()
    return [price for price in (*of_ec2, *of_gce) if price.market is Market.ON_DEMAND]


def renewed(
    document: Mapping[str, Any], found: Sequence[FreshPrice], today: date
) -> tuple[dict[str, Any], list[str]]:
    """The document with these prices, and what is not believed, which stays as it was. Pure."""
    book = PriceBook(table=parse(json.dumps(document), "price book"))
    new = json.loads(json.dumps(document))
    doubts = [
        doubt
        for each in found
        if (doubt := book.doubt(each.cloud, each.region, each.name, each.market, each.usd_per_hour))
    ]
    by_name = {
        (each.cloud, each.name): each
        for each in found
        if not book.doubt(each.cloud, each.region, each.name, each.market, each.usd_per_hour)
    }
    for cloud, name, machine in _machines(new):
        price = by_name.get((cloud, name))
        if price is not None:
            machine["usd_per_hour"] = {price.region: round(price.usd_per_hour, 6)}
            machine.pop("as_of", None)
        elif machine.get("usd_per_hour"):
            machine.setdefault("as_of", document["as_of"])
    new |= {"as_of": today.isoformat(), "source": SOURCE}
    return new, doubts


def text_of(document: Mapping[str, Any]) -> str:
    """A machine a line, so that one sees what a refresh has changed."""
    clouds = ",\n".join(
        f'    "{name}": {{\n{_section(cloud)}\n    }}' for name, cloud in document["clouds"].items()
    )
    head = "".join(
        f'  "{key}": {json.dumps(value)},\n' for key, value in document.items() if key != "clouds"
    )
    return f'{{\n{head}  "clouds": {{\n{clouds}\n  }}\n}}\n'


def main() -> int:
    today = datetime.now(UTC).date()
    document = json.loads(BUNDLED.read_text(encoding="utf-8"))
    table = parse(json.dumps(document), str(BUNDLED))
    account = AwsAccount(name="aws", region=table.clouds["aws"].reference_region)
    site = GcpSite(name="gcp", project="", region=table.clouds["gcp"].reference_region)
    try:
        found = asyncio.run(asked(table, account, site, today))
    except (AwsError, GceError, WindlassError, OSError) as error:
        print(f"nothing is written: {error}", file=sys.stderr)
        return 1
    return write(BUNDLED, document, found, today)


def write(path: Path, document: Mapping[str, Any], found: Sequence[FreshPrice], today: date) -> int:
    new, doubts = renewed(document, found, today)
    for doubt in doubts:
        print(f"not taken: {doubt}", file=sys.stderr)
    text = text_of(new)
    parse(text, str(path))
    path.write_text(text, encoding="utf-8")
    kept = [name for _, name, machine in _machines(new) if "as_of" in machine]
    print(
        f"{len(found) - len(doubts)} prices of {today}; older ones are kept for {len(kept)}: {', '.join(kept)}"
    )
    return 0


def _google(table: PriceTable) -> Iterator[tuple[GcpMachine, TypeFacts]]:
    """All that its billing catalogue could name: machines, and GPUs that are added to one."""
    section = table.clouds["gcp"]
    for name, machine in section.types.items():
        yield GcpMachine(machine_type=name, gpu_num=0), _facts(machine)
    for gpu in section.accelerators:
        yield GcpMachine(machine_type="n1-standard-1", gpu_type=gpu, gpu_num=1), TypeFacts()


def _facts(machine: MachineType) -> TypeFacts:
    return TypeFacts(
        gpu=machine.gpu_model,
        gpus=machine.gpus,
        cpus=int(machine.cpus or 0),
        memory_mib=machine.memory_mib or 0,
    )


def _machines(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for cloud, section in document["clouds"].items():
        for kind in _PER_LINE:
            for name, machine in section.get(kind, {}).items():
                yield cloud, name, machine


def _section(cloud: Mapping[str, Any]) -> str:
    lines = []
    for key, value in cloud.items():
        if key in _PER_LINE:
            each = ",\n".join(f'        "{name}": {json.dumps(x)}' for name, x in value.items())
            lines.append(f'      "{key}": {{\n{each}\n      }}')
        else:
            lines.append(f'      "{key}": {json.dumps(value)}')
    return ",\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
