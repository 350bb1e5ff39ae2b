"""What the agent says of its machine: in every hello, and while it is connected."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from agent_bootstrap.agent.batch.node import job_variables, proxies_of, site_node
from agent_bootstrap.agent.batch.scratch import find_scratch
from agent_bootstrap.agent.connection.master_trust import given_certificates, task_certificate_name
from agent_bootstrap.agent.containers.environment import NodeFacts
from agent_bootstrap.agent.gpus.selection import batch_job
from agent_bootstrap.agent.identity import one_user_notes, own_identity, process_user
from agent_bootstrap.agent.options import AgentOptions
from agent_bootstrap.agent.runtimes.base import Runtime
from agent_bootstrap.agent.slots import Hardware
from agent_bootstrap.bounds import MAX_NOTES
from agent_bootstrap.container_options import ContainerLimits
from agent_bootstrap.protocol import (
    ContainerReport,
    ContainerSpec,
    Heartbeat,
    Hello,
    IsolationKind,
    Leaving,
    Message,
    Slot,
    Welcome,
)
from agent_bootstrap.supervisor.contact import FILE as CONTACT
from windlass.base.errors import InvalidArgument
from windlass.base.files import write_atomic
from windlass.base.formats.trial_class import PACKAGE
from windlass.base.packages import VERSION
from windlass.base.processes import boot_id
from windlass.base.tls.trust import NO_VERIFY

LOW_DISK_BYTES = 2 * 1024**3
REMEMBERED = "machine.json"


class MachineRecord(Message):
    """What an agent said of its machine, for whoever speaks for that when it is gone."""

    slots: tuple[Slot, ...] = ()
    isolation: IsolationKind = IsolationKind.UNKNOWN

    @classmethod
    def of(cls, work_dir: Path) -> MachineRecord:
        """Raises OSError, ValidationError."""
        return cls.model_validate_json((work_dir / REMEMBERED).read_bytes())


@dataclass(slots=True)
class AgentMachine:
    """Found out once, but for the disk and the end of the machine."""

    options: AgentOptions
    hardware: Hardware
    runtime: Runtime
    leaving: Leaving | None = None
    ends_at: datetime | None = None
    """As its batch system says, where its operator does not."""
    passing_notes: Callable[[], tuple[str, ...]] = tuple
    """What an operator should know now."""
    reached: Callable[[], AgentOptions] | None = None
    """The options, with the master where it is reached now."""

    @property
    def _now(self) -> AgentOptions:
        return self.options if self.reached is None else self.reached()

    def hello(self, containers: tuple[ContainerReport, ...], highest_epoch: int) -> Hello:
        options = self.options
        return Hello(
            version=VERSION,
            agent_id=options.agent_id,
            pool=options.resource_pool,
            boot_id=boot_id(),
            hostname=socket.gethostname(),
            site_node=site_node(os.environ),
            address=options.address or self._now.address,
            instance_id=options.instance_id,
            slots=self.hardware.slots,
            containers=containers,
            highest_epoch=highest_epoch,
            notes=self._notes(),
            labels=options.label,
            ends_at=self.options.ends_at or self.ends_at,
            leaving=self.leaving,
            takes_work=self.hardware.takes_work,
            isolation=self.runtime.isolation,
            container_runtime=self.runtime.name,
            runs_trial_classes=importlib.util.find_spec(PACKAGE) is not None,
            uid=os.geteuid(),
            process_user=process_user(own_identity(), self.runtime.isolation),
        )

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(disk_free_bytes=self._disk_free(), notes=self._notes())

    def note_contact(self) -> None:
        """For supervisors, which end their tasks without it where `orphan_ttl` says so."""
        with suppress(OSError):
            (self.options.work_dir / CONTACT).touch(mode=0o600)

    def remember(self) -> None:
        said = MachineRecord(slots=self.hardware.slots, isolation=self.runtime.isolation)
        with suppress(OSError):  # a full disk: then its tasks count as lost with it
            write_atomic(self.options.work_dir / REMEMBERED, said.model_dump_json().encode())

    def with_default_limits(self, spec: ContainerSpec) -> ContainerSpec:
        """The task's own limits, and the agent's where it has none."""
        default, own = self.options.default_limits, spec.options.limits
        limits = ContainerLimits(
            cpus=own.cpus or default.cpus,
            memory_bytes=own.memory_bytes or default.memory,
            pids=own.pids or default.pids,
        )
        options = spec.options.model_copy(update={"limits": limits})
        return spec.model_copy(update={"options": options})

    def node(self, welcome: Welcome) -> NodeFacts:
        """What tasks are told of this machine and of the cluster that has welcomed it."""
        options = self._now
        return NodeFacts(
            master_url=options.container_url,
            agent_id=options.agent_id,
            cluster_id=welcome.cluster_id,
            master_id=welcome.master_id,
            slots=self.hardware.slots,
            gpus=self.hardware.gpus,
            instance_id=options.instance_id,
            proxies=tuple((options.proxies or self._proxies_of_node()).items()),
            job=job_variables(os.environ),
            scratch=find_scratch(options.scratch_dir, os.environ),
            inherits=os.environ if self._is_leased else {},
            certificates=self._certificates(welcome),
            certificate_name=task_certificate_name(options),
        )

    @property
    def _is_leased(self) -> bool:
        """The master submitted the job around it. In a user's own, variables may be that user's secrets."""
        return self.options.instance_id is not None and batch_job(os.environ) is not None

    def _proxies_of_node(self) -> dict[str, str]:
        if batch_job(os.environ) is None:
            return {}
        try:
            text = Path("/etc/environment").read_text(errors="replace")
        except OSError:
            return {}
        return proxies_of(text, urlsplit(self.options.container_url).hostname or "")

    def _certificates(self, welcome: Welcome) -> str:
        """For tasks: what the operator of this agent trusts, and what the master says, whom we have verified."""
        if self.options.security.tls.skip_verify:
            return NO_VERIFY
        try:
            return given_certificates(self.options) + welcome.certificates
        except InvalidArgument:
            return welcome.certificates  # the file was there when we connected

    @property
    def standing_notes(self) -> tuple[str, ...]:
        """What an operator should know of how tasks run here."""
        notes = (*self.runtime.notes, *one_user_notes(own_identity()), *self.hardware.notes)
        return notes[: MAX_NOTES - 1]

    def _notes(self) -> tuple[str, ...]:
        now = self.passing_notes()
        free = self._disk_free()
        if free is not None and free < LOW_DISK_BYTES:
            low = f"{self.options.work_dir} has {free / 1024**3:.1f} GiB left: tasks may fail"
            now = (*now, low)
        return (*self.standing_notes[: MAX_NOTES - len(now)], *now)

    def _disk_free(self) -> int | None:
        try:
            return shutil.disk_usage(self.options.work_dir).free
        except OSError:
            return None


def trial_node(options: AgentOptions, hardware: Hardware) -> NodeFacts:
    """What a container of the agent's own is told, before any cluster has welcomed it."""
    return NodeFacts(
        master_url=options.container_url,
        agent_id=options.agent_id,
        cluster_id="",
        master_id="",
        slots=hardware.slots,
        gpus=hardware.gpus,
        scratch=find_scratch(options.scratch_dir, os.environ),
    )
