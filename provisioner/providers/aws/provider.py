"""EC2 of one account in one region, for all pools that buy there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from datetime import date

from provisioner.money.fresh_prices import FreshPrice
from provisioner.money.price_book import PriceBook
from provisioner.providers.aws.account import AwsAccount
from provisioner.providers.aws.catalogue import Catalogue, learn
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.aws.errors import (
    refused_call,
    refused_launch,
    refused_start,
    refused_stop,
)
from provisioner.providers.aws.images import image_tags, make_image, remove_image
from provisioner.providers.aws.instances import (
    Ec2Instance,
    end_of_console,
    found,
    instances_of,
    machines_of,
    shut_itself_down,
)
from provisioner.providers.aws.notices import InstanceNotice, Notices
from provisioner.providers.aws.offers import DOUBTED, expected_offers, facts_of, offers_of
from provisioner.providers.aws.prices import list_prices
from provisioner.providers.aws.request import run_instances
from provisioner.providers.aws.tags import CLUSTER
from provisioner.providers.base import (
    AnswersAtOnce,
    FoundInstance,
    FoundState,
    Inventory,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
    LimitedCall,
    Rate,
)
from provisioner.providers.cloud_provider import CloudProvider, check_size
from provisioner.providers.images import ImageAnswer, ImageOrder
from provisioner.sections.aws import AwsMachines, AwsSection
from provisioner.types import Market, Offer
from windlass.base.clock import Clock
from windlass.base.errors import ProviderError
from windlass.base.formats.json_types import JsonMapping

log = logging.getLogger(__name__)

MAX_USER_DATA = 16 * 1024
"""Before it is encoded."""
TERMINATE_AT_ONCE = 100
CONSOLES_AT_ONCE = 5
_PAGE = 1000
_ONE_BY_ONE = ("InvalidInstanceID", "OperationNotPermitted")
"""One such machine, and none of the batch is ended."""
_UNKNOWN_ID = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
_NOT_LATEST = ("UnsupportedOperation", "InvalidParameterCombination", "InvalidParameterValue")
"""Types that tell what was written until some minutes ago only."""
_EXISTING_GROUP = "InvalidPlacementGroup.Duplicate"

UserData = Callable[[LaunchIntent], str]
"""What the machines of a launch run first. Made of the intent and its `request["boot"]` alone."""


class AwsProvider(CloudProvider[AwsSection, Catalogue, AwsClient], AnswersAtOnce):
    image_key = "image_id"

    def __init__(
        self,
        *,
        account: AwsAccount,
        pools: Sequence[AwsMachines],
        cluster_id: str,
        clock: Clock,
        prices: PriceBook,
        user_data: UserData,
    ) -> None:
        super().__init__(
            client=AwsClient(account),
            pools=pools,
            cluster_id=cluster_id,
            clock=clock,
            prices=prices,
        )
        self._account = account
        self._user_data = user_data
        self._notices = Notices(self._client, account.queue_url)
        self._consoles: dict[str, str] = {}
        """What machines that shut themselves down wrote last."""
        self._doubtful: Set[str] = frozenset()
        """Where prices are from instead of what EC2 said, which was not believed: logged once."""

    @property
    def name(self) -> str:
        return self._account.name

    @property
    def rates(self) -> Mapping[LimitedCall, Rate]:
        """Below the token buckets that EC2 documents, which others of the account use, too."""
        return {
            LimitedCall.LAUNCH: Rate(burst=5, per_s=1.5),
            LimitedCall.TERMINATE: Rate(burst=20, per_s=2.0),
        }

    async def list_prices(self, today: date) -> Sequence[FreshPrice]:
        names = [machines.section.instance_type for machines in self._pools]
        async with self._asking():
            return await list_prices(self._client, self._account.region, names, today)

    async def make_image(self, order: ImageOrder) -> ImageAnswer:
        own = next((x.section.all_tags for x in self._pools if x.pool == order.pool), {})
        async with self._asking():
            return await make_image(self._client, order, image_tags(order, own))

    async def remove_image(self, order: ImageOrder) -> bool:
        async with self._asking():
            return await remove_image(self._client, order)

    def freeze(self, intent: LaunchIntent) -> JsonMapping:
        machines, catalogue = self._bought(intent)
        facts = facts_of(machines.section, catalogue, self._prices)
        call = run_instances(intent, machines, facts, catalogue)
        return {"run_instances": call, "boot": dict(machines.boot)}

    async def launch(self, intent: LaunchIntent) -> LaunchAnswer:
        user_data = self._user_data(intent)
        check_size(user_data, intent, MAX_USER_DATA, "EC2")
        try:
            reply = await self._client.call(
                "ec2",
                "run_instances",
                **intent.request["run_instances"],
                ClientToken=intent.token,
                UserData=user_data,
            )
        except AwsError as error:
            raise refused_launch(error, intent.offer) from None
        made = sorted(instances_of(reply), key=lambda instance: instance.AmiLaunchIndex)
        return LaunchResult(
            instance_ids=tuple(instance.InstanceId for instance in made),
            started_at=min((instance.started_at for instance in made), default=None),
        )

    async def list(self) -> Inventory:
        notices = await self._notices.read()
        machines: list[Ec2Instance] = []
        wanted = [{"Name": f"tag:{CLUSTER}", "Values": [self._cluster_id]}]
        async with self._asking():
            async for page in self._client.pages(
                "ec2", "describe_instances", Filters=wanted, MaxResults=_PAGE
            ):
                # A page of a thousand takes longer than the event loop may be held.
                machines += await asyncio.to_thread(machines_of, page)
        await self._read_consoles(
            [machine.InstanceId for machine in machines if shut_itself_down(machine)]
        )
        instances = await asyncio.to_thread(self._found, machines, notices)
        self._notices.forget_others(
            {x.instance_id for x in instances if x.state is not FoundState.ENDED}
        )
        return Inventory(instances=tuple(instances))

    def _found(
        self, machines: Sequence[Ec2Instance], notices: Mapping[str, InstanceNotice]
    ) -> Sequence[FoundInstance]:
        return [
            found(
                machine,
                region=self._account.region,
                notice=notices.get(machine.InstanceId),
                console=self._consoles.get(machine.InstanceId, ""),
            )
            for machine in machines
        ]

    async def terminate(self, instance_ids: Sequence[str]) -> None:
        failures: list[str] = []
        for start in range(0, len(instance_ids), TERMINATE_AT_ONCE):
            batch = list(instance_ids[start : start + TERMINATE_AT_ONCE])
            try:
                await self._client.call("ec2", "terminate_instances", InstanceIds=batch)
            except AwsError as error:
                if not error.code.startswith(_ONE_BY_ONE):
                    raise refused_call(error) from None
                failures += await self._terminate_each(batch)
        if failures:
            raise ProviderError("; ".join(failures))

    async def stop(self, instance_id: str) -> None:
        try:
            await self._client.call("ec2", "stop_instances", InstanceIds=[instance_id])
        except AwsError as error:
            raise refused_stop(error) from None

    async def start(self, instance_id: str, offer: Offer) -> None:
        try:
            await self._client.call("ec2", "start_instances", InstanceIds=[instance_id])
        except AwsError as error:
            raise refused_start(error, offer) from None

    async def console(self, instance_id: str) -> str:
        """Of one that runs, what it has written until now, where its type can tell that."""
        try:
            return await self._console(instance_id, Latest=True)
        except AwsError as error:
            if error.code in _UNKNOWN_ID:
                return ""
            if error.code not in _NOT_LATEST:
                raise refused_call(error) from None
        async with self._asking():
            return await self._console(instance_id)

    async def _console(self, instance_id: str, **more: bool) -> str:
        reply = await self._client.call("ec2", "get_console_output", InstanceId=instance_id, **more)
        return end_of_console(str(reply.get("Output", "")))

    async def _read_consoles(self, instance_ids: Sequence[str]) -> None:
        """Of machines that shut themselves down: a boot that failed says why there. Each is read once."""
        self._consoles = {id_: x for id_, x in self._consoles.items() if id_ in instance_ids}
        new = [id_ for id_ in instance_ids if id_ not in self._consoles]
        for instance_id in new[:CONSOLES_AT_ONCE]:
            self._consoles[instance_id] = ""
            try:
                self._consoles[instance_id] = await self._console(instance_id)
            except (AwsError, ProviderError, OSError) as error:
                log.warning("the console of %s cannot be read: %s", instance_id, error)

    async def _terminate_each(self, instance_ids: Sequence[str]) -> Sequence[str]:
        """What could not be ended, and why."""
        failures = []
        for instance_id in instance_ids:
            try:
                await self._client.call("ec2", "terminate_instances", InstanceIds=[instance_id])
            except AwsError as error:
                if error.code not in _UNKNOWN_ID:
                    failures.append(f"{instance_id}: {refused_call(error)}")
        return failures

    async def _learn(self) -> Catalogue:
        async with self._asking():
            return await learn(self._client, [x.section for x in self._pools], self._clock.now())

    def _offers_of(self, machines: AwsMachines, catalogue: Catalogue) -> Sequence[Offer]:
        now = self._clock.now().timestamp()
        return offers_of(self._account, machines, catalogue, self._prices, now)

    def _expected_offers(self, machines: AwsMachines) -> Sequence[Offer]:
        return expected_offers(self._account, machines, self._prices)

    def _for_image(self, machines: AwsMachines) -> AwsMachines:
        return machines.but(
            markets=(Market.ON_DEMAND,), reservations=(), placement_group="", efa=False
        )

    def _offer(self, catalogue: Catalogue) -> None:
        super()._offer(catalogue)
        doubtful = {
            x.price_origin
            for each in self._offers.values()
            for x in each
            if DOUBTED in x.price_origin
        }
        for origin in sorted(doubtful - self._doubtful):
            log.warning("%s: counted by the %s", self.name, origin)
        self._doubtful = doubtful

    async def _make_placement(self) -> None:
        for group in sorted({x.section.placement_group for x in self._pools} - {""}):
            try:
                await self._client.call(
                    "ec2",
                    "create_placement_group",
                    GroupName=group,
                    Strategy="cluster",
                    TagSpecifications=[
                        {
                            "ResourceType": "placement-group",
                            "Tags": [{"Key": CLUSTER, "Value": self._cluster_id}],
                        }
                    ],
                )
            except AwsError as error:
                if error.code != _EXISTING_GROUP:
                    # Launches into it say what is wrong: it may exist, and not be ours to make.
                    log.warning("placement group %s: %s", group, refused_call(error))

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        try:
            yield
        except AwsError as error:
            raise refused_call(error) from None
