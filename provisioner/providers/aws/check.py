"""Whether a pool could buy what it is configured to buy: asked of AWS by dry runs, nothing is made.

What a dry run cannot say (ending a machine, reading its console) is left out while there is no machine of ours.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches

from provisioner.money.price_book import PriceBook
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.catalogue import Catalogue, learn
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.aws.errors import refused_call, refused_launch, said_by
from provisioner.providers.aws.offers import facts_of, offers_of
from provisioner.providers.aws.permissions import PERMISSIONS
from provisioner.providers.aws.quota_check import PoolQuota, by_quota, fits, too_small
from provisioner.providers.aws.request import run_instances
from provisioner.providers.base import LaunchIntent
from provisioner.providers.findings import OPTIONAL, CloudFinding, optional
from provisioner.providers.web_pages import without_page
from provisioner.sections.aws import AwsMachines, AwsSection
from provisioner.types import Market, Offer
from windlass.base.errors import WindlassError

_ALLOWED = "DryRunOperation"
_MISSING = ("UnauthorizedOperation", "AccessDenied")
_NEEDS_A_MACHINE = (
    *("ec2:TerminateInstances", "ec2:StopInstances", "ec2:StartInstances"),
    "ec2:GetConsoleOutput",
    *("ec2:CreateImage", "ec2:DeregisterImage", "ec2:DeleteSnapshot"),
)
_BY_LAUNCH = ("ec2:RunInstances", "ec2:CreateTags", "iam:PassRole")
_LEARNT = ("ssm:GetParameters", "servicequotas:GetServiceQuota")


async def check(
    account: AwsAccount, pools: Sequence[AwsMachines], prices: PriceBook, now: datetime
) -> Sequence[CloudFinding]:
    """Never raises: what cannot be asked is a finding."""
    client = AwsClient(account)
    client.open()
    try:
        return [finding async for finding in _findings(client, account, pools, prices, now)]
    finally:
        client.close()


async def _findings(
    client: AwsClient,
    account: AwsAccount,
    pools: Sequence[AwsMachines],
    prices: PriceBook,
    now: datetime,
) -> AsyncIterator[CloudFinding]:
    try:
        who = await client.call("sts", "get_caller_identity")
    except (AwsError, WindlassError, OSError) as error:
        yield CloudFinding(what=f"{account.name}: credentials", problems=(_text(error),))
        return
    yield CloudFinding(what=f"{account.name}: credentials ({who.get('Arn', '')})")
    used = {"", *_features(account, pools)}
    yield CloudFinding(
        what=f"{account.name}: permissions",
        problems=tuple([problem async for problem in _missing(client, account, used)]),
    )
    for feature in OPTIONAL:
        problems = [problem async for problem in _missing(client, account, {feature})]
        yield optional(account.name, feature, problems)
    try:
        catalogue = await learn(client, [wanted.section for wanted in pools], now)
    except (AwsError, WindlassError, OSError) as error:
        yield CloudFinding(what=f"{account.name}: what it sells", problems=(_text(error),))
        return
    for wanted in pools:
        section = wanted.section
        what = f"pool {wanted.pool}, {section.instance_type} in {account.region}"
        problems = list(dict.fromkeys(_settings(section, catalogue, account)))
        if not problems:
            problems = await _launches(client, account, wanted, catalogue, prices, now)
        yield CloudFinding(what=what, problems=tuple(problems))
    async for finding in _quotas(client, account, pools, catalogue, prices):
        yield finding


async def _missing(
    client: AwsClient, account: AwsAccount, features: Collection[str]
) -> AsyncIterator[str]:
    for permission in PERMISSIONS:
        action = permission.action
        if permission.feature not in features:
            continue
        if action in (*_NEEDS_A_MACHINE, *_BY_LAUNCH, *_LEARNT):
            continue
        try:
            await _try(client, account, action)
        except AwsError as error:
            if error.code.startswith(_MISSING):
                yield f"{action} is needed to {permission.why}: allow it in the master's policy"
            elif error.code != _ALLOWED:
                yield f"{action}: {said_by(error)}"
        except (WindlassError, OSError) as error:
            yield f"{action}: {_text(error)}"


def _features(account: AwsAccount, pools: Sequence[AwsMachines]) -> set[str]:
    used = {"interruption_queue"} if account.queue_url else set()
    for wanted in pools:
        used |= {"reservations"} if wanted.section.reservations else set()
        used |= {"placement_group"} if wanted.section.placement_group else set()
        used |= {"stopped_agents"} if wanted.may_stop else set()
    return used


async def _try(client: AwsClient, account: AwsAccount, action: str) -> None:
    """Without consequences."""
    service, _, name = action.partition(":")
    if service == "sqs":
        # What is received stays in the queue; whether it may be deleted shows only then.
        if name == "ReceiveMessage":
            await client.call(
                "sqs", "receive_message", QueueUrl=account.queue_url, VisibilityTimeout=0
            )
        return
    if service == "pricing":
        await client.call("pricing", "get_products", ServiceCode="AmazonEC2", MaxResults=1)
        return
    operation = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    more: Mapping[str, object] = {}
    if name == "CreatePlacementGroup":
        more = {"GroupName": "windlass-check", "Strategy": "cluster"}
    await client.call(service, operation, DryRun=True, **more)


def _settings(section: AwsSection, catalogue: Catalogue, account: AwsAccount) -> Iterator[str]:
    """What does not exist, by name."""
    name, region = section.instance_type, account.region
    if name not in catalogue.types:
        yield f"instance_type: AWS has no {name} in {region}: choose another type or region"
        return
    for zone in section.zones:
        if zone not in catalogue.zones:
            near = get_close_matches(zone, catalogue.zones, n=1)
            meant = f"did you mean {near[0]}?" if near else "leave it out"
            yield f"zones: this account has no zone {zone}: {meant}"
        elif (name, zone) not in catalogue.sold:
            have = sorted(z for t, z in catalogue.sold if t == name)
            yield f"zones: {zone} has no {name}: {', '.join(have) or 'no zone of the region'} has it"
    for subnet in section.all_subnets:
        if subnet not in catalogue.subnets:
            yield f"subnets: there is no {subnet} in {region}: correct it, or remove it"
    if not section.all_subnets and not catalogue.default_subnets:
        yield f"subnets: {region} has no default subnets: give one in each zone"
    for reservation in section.reservations:
        found = catalogue.reservations.get(reservation)
        if found is None:
            yield f"reservations: there is no active {reservation} in {region}: remove it"
        elif found.instance_type != name:
            yield f"reservations: {reservation} is of {found.instance_type}, not {name}: remove it"


async def _launches(
    client: AwsClient,
    account: AwsAccount,
    machines: AwsMachines,
    catalogue: Catalogue,
    prices: PriceBook,
    now: datetime,
) -> list[str]:
    """Each offer launched, but not really: image, group, key, profile and the permissions of the call."""
    problems: dict[str, None] = {}
    facts = facts_of(machines.section, catalogue, prices)
    for offer in offers_of(account, machines, catalogue, prices, now.timestamp()):
        try:
            call = run_instances(_intent(machines.pool, offer), machines, facts, catalogue)
            await client.call("ec2", "run_instances", DryRun=True, **call)
        except AwsError as error:
            if error.code != _ALLOWED:
                problems[_text(refused_launch(error, offer))] = None
        except (WindlassError, OSError) as error:
            problems[_text(error)] = None
    return list(problems)


def _intent(pool: str, offer: Offer) -> LaunchIntent:
    return LaunchIntent(
        intent_id="check",
        token="",
        cluster_id="check",
        pool=pool,
        generation=0,
        offer=offer,
        count=1,
    )


async def _quotas(
    client: AwsClient,
    account: AwsAccount,
    pools: Sequence[AwsMachines],
    catalogue: Catalogue,
    prices: PriceBook,
) -> AsyncIterator[CloudFinding]:
    needs = [
        PoolQuota(
            pool=wanted.pool,
            instance_type=wanted.section.instance_type,
            most=wanted.max_instances,
            cpus=facts_of(wanted.section, catalogue, prices).cpus,
            is_spot=market is Market.SPOT,
        )
        for wanted in pools
        for market in wanted.section.bought_markets
    ]
    for (code, name), of_quota in by_quota(needs).items():
        what = f"{account.name}: quota {name} ({code})"
        try:
            reply = await client.call(
                "service-quotas", "get_service_quota", ServiceCode="ec2", QuotaCode=code
            )
        except (AwsError, WindlassError, OSError) as error:
            # Launches need no permission to read quotas.
            yield CloudFinding(what=f"{what}: not known, {_text(error)}")
            continue
        limit = float(reply["Quota"]["Value"])
        problem = too_small(limit, of_quota)
        yield CloudFinding(
            what=f"{what}: {fits(limit, of_quota)}", problems=(problem,) if problem else ()
        )


def _text(error: Exception) -> str:
    said = refused_call(error) if isinstance(error, AwsError) else error
    return " ".join(without_page(str(said)).split()) or type(said).__name__
