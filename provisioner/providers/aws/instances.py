"""Machines as EC2 describes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from pydantic import BaseModel

from provisioner.providers.aws import tags
from provisioner.providers.aws.notices import InstanceNotice
from provisioner.providers.base import FoundInstance, FoundState
from windlass.base.formats.json_types import JsonMapping

_STATES = {
    "pending": FoundState.PENDING,
    "stopped": FoundState.STOPPED,
    "terminated": FoundState.ENDED,
}
"""Any other exists: one that is being ended or stopped may still be billed."""
CONSOLE_CHARS = 400
_BY_ITSELF = "Client.InstanceInitiatedShutdown"


class _Tag(BaseModel):
    Key: str
    Value: str = ""


class _State(BaseModel):
    Name: str


class _Reason(BaseModel):
    Code: str = ""
    Message: str = ""


class _Placement(BaseModel):
    AvailabilityZone: str = ""


class Ec2Instance(BaseModel):
    """Those members of EC2's Instance that are read."""

    InstanceId: str
    InstanceType: str
    LaunchTime: datetime
    State: _State
    StateReason: _Reason = _Reason()
    Placement: _Placement = _Placement()
    AmiLaunchIndex: int = 0
    Tags: Sequence[_Tag] = ()

    @property
    def started_at(self) -> float:
        return self.LaunchTime.timestamp()

    @property
    def tags(self) -> Mapping[str, str]:
        return {tag.Key: tag.Value for tag in self.Tags}


def instances_of(reservation: JsonMapping) -> Sequence[Ec2Instance]:
    return [Ec2Instance.model_validate(item) for item in reservation.get("Instances", ())]


def machines_of(page: JsonMapping) -> Sequence[Ec2Instance]:
    """Of one page of DescribeInstances."""
    return [x for reservation in page.get("Reservations", ()) for x in instances_of(reservation)]


def found(
    machine: Ec2Instance, *, region: str, notice: InstanceNotice | None, console: str = ""
) -> FoundInstance:
    ours = machine.tags
    slots = tags.number(ours, tags.SLOTS, -1)
    usd = tags.number(ours, tags.USD_PER_HOUR, -1.0)
    return FoundInstance(
        instance_id=machine.InstanceId,
        state=_state_of(machine),
        cluster_id=ours.get(tags.CLUSTER, ""),
        pool=ours.get(tags.POOL, ""),
        intent_id=ours.get(tags.INTENT, ""),
        generation=tags.number(ours, tags.GENERATION, 0),
        created_at=tags.number(ours, tags.CREATED_AT, 0.0) or machine.started_at,
        offer_key=tags.offer_key_of(
            ours,
            region=region,
            zone=machine.Placement.AvailabilityZone,
            instance_type=machine.InstanceType,
        ),
        slots=slots if slots >= 0 else None,
        usd_per_hour=usd if usd >= 0 else None,
        started_at=machine.started_at,
        leaves_at=None if notice is None else notice.leaves_at,
        leaves_because="" if notice is None else notice.why,
        detail=_why_ended(machine, console),
    )


def _state_of(machine: Ec2Instance) -> FoundState:
    return _STATES.get(machine.State.Name, FoundState.RUNNING)


def shut_itself_down(machine: Ec2Instance) -> bool:
    return machine.State.Name == "terminated" and machine.StateReason.Code == _BY_ITSELF


def end_of_console(text: str) -> str:
    """The last that it says, in one printable line."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(clean.split())[-CONSOLE_CHARS:]


def _why_ended(machine: Ec2Instance, console: str) -> str:
    if machine.State.Name != "terminated":
        return ""
    if shut_itself_down(machine):
        return (
            f"it shut itself down; its console ends with: {console}"
            if console
            else ("it shut itself down")
        )
    return machine.StateReason.Message or machine.StateReason.Code
