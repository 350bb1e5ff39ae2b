"""What the answers of calls that stop and start machines mean. Pure."""

from __future__ import annotations

from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.builder import FleetStateBuilder
from provisioner.fleet.instances import EndKind, EndRequest, InstanceRecord, InstanceState
from provisioner.fleet.state import CallRefused, StartAnswered, StopAnswered
from provisioner.fleet.stops import not_started, started, starting, stop_answered
from provisioner.planning.plan_types import Launch
from provisioner.planning.scale_down.stop_value import start_of


class Stops:
    """Those of one pass."""

    def __init__(self, builder: FleetStateBuilder) -> None:
        self._builder = builder

    def start(self, launch: Launch) -> None:
        """Write down that these stopped machines are started, and for whom."""
        for name, claims in zip(launch.starts, launch.claims, strict=True):
            record = self._builder.instances[name]
            if record.state is InstanceState.STOPPED:
                self._builder.instances[name] = starting(record, claims, self._builder.now)

    def stop_answered(self, event: StopAnswered) -> list[EndRequest]:
        """What cannot be stopped is ended."""
        record = self._builder.instances.get(event.instance_id)
        if record is None:
            return []
        in_doubt = bool(event.error) and not event.refused
        record = stop_answered(record, self._builder.now, in_doubt=in_doubt)
        self._builder.instances[record.id] = record
        if not event.refused or record.state is not InstanceState.STOPPING:
            return []
        why = f"{record.reason}; {event.error}"
        return [EndRequest(instance_id=record.id, kind=EndKind.STOPPED, why=why)]

    def start_answered(self, event: StartAnswered) -> None:
        """Refused, it is stopped as before, and memory knows why: others are started or bought."""
        record = self._builder.instances.get(event.instance_id)
        if record is None or record.state is not InstanceState.STARTING:
            return
        if event.refusal is not None:
            self._refused(record, event.refusal)
        elif not event.error:
            offer = start_of(record.offer, self._builder.memory)
            self._builder.memory = self._builder.memory.launched(offer)
            self._builder.instances[record.id] = started(record)

    def give_up(self, record: InstanceRecord) -> None:
        """Nobody has answered, and it has not started."""
        self._refused(record, CallRefused(kind=BlockKind.UNKNOWN, message="no answer"))

    def _refused(self, record: InstanceRecord, said: CallRefused) -> None:
        self._builder.learn(start_of(record.offer, self._builder.memory), said)
        why = f"not started: {said.message}"
        self._builder.instances[record.id] = not_started(record, why)
