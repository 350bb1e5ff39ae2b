"""The real master in a world made of nothing: simulated machines, agents and training programs, on virtual time.

    World ── MasterProcess (one at a time; killed and started again)
      ├── SimulatedProvider (two, of one pool) ── instances ── FakeAgent ── Training
      └── rack (a static pool) ──────────── FakeAgent ── Training

Everything comes from one seed. What the master's process owns dies with it; provider, machines and programs live on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent_bootstrap.protocol import Channel, ChannelClosed, ContainerSpec
from master.app import MasterOptions
from master.auth.join_tokens import SECRET_BYTES, JoinTokenSigner
from master.config import MasterConfig
from master.experiments.submission.creation import NewExperiment
from master.recovery.identity import FolderState, Identity, write_identity
from master.wiring.launch_tokens import JOIN_WITHIN
from provisioner.types import Offer, OfferKey
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.actors import DETERMINED
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.inline_deleter import NothingToDelete
from tests.fakes.memory_channel import MemoryChannel, memory_channel
from tests.fakes.simulated_provider import SimulatedInstance, SimulatedProvider
from tests.fakes.virtual_time import LoopClock
from tests.simulation.invariants import Invariants
from tests.simulation.process import Handler, MasterProcess, Unreachable
from tests.simulation.training import Gang, Training
from tests.simulation.wire import Wire
from windlass.base.errors import LeaseLost, StoreUnavailable
from windlass.base.ids import Ids

T = TypeVar("T")

SECRET = bytes(range(SECRET_BYTES))
ELASTIC, RACK = "elastic", "rack"
MAX_INSTANCES = 3
SLOTS = 2
RECONNECT_WAIT_S = 25.0
CONFIG: Mapping[str, Any] = {
    "security": {"allow_empty_password": True},  # nobody logs in, and hashing takes real time
    "resource_manager": {
        "type": "agent",
        "default_compute_resource_pool": ELASTIC,
        "default_aux_resource_pool": ELASTIC,
    },
    "resource_pools": [
        {
            "pool_name": ELASTIC,
            "max_instances": MAX_INSTANCES,
            "max_idle_agent_period": "40s",
            "agent_reconnect_wait": f"{RECONNECT_WAIT_S:g}s",
            "provider": {"type": "embedded", "slots_per_instance": SLOTS},
        },
        {"pool_name": RACK, "agent_reconnect_wait": f"{RECONNECT_WAIT_S:g}s"},
    ],
}
SCHEDULERS: Sequence[Mapping[str, Any]] = (
    {"type": "fair_share"},
    {"type": "priority", "preemption": True, "reserve_after": "30s"},
    {"type": "priority"},
    {"type": "round_robin", "reserve_after": "30s"},
    {"type": "fair_share", "reserve_after": "30s"},
)
"""Both pools of a seed have one of these."""
CLOUDS: Mapping[str, Sequence[str]] = {"one-cloud": ("a", "b"), "other-cloud": ("c",)}
"""The providers of the elastic pool, and their zones."""
OFFERS = tuple(
    Offer(
        key=OfferKey(provider=cloud, zone=zone, instance_type="two"),
        slots=SLOTS,
        usd_per_hour=1.0 + 0.1 * n,
        boot_s=15.0 + n,
        boot_deadline_s=90.0,
    )
    for n, (cloud, zone) in enumerate((cloud, zone) for cloud in CLOUDS for zone in CLOUDS[cloud])
)
LIST_GRACE_S = 20.0


def config_of(seed: int) -> Mapping[str, Any]:
    """The master.yaml of a seed."""
    scheduler = SCHEDULERS[seed % len(SCHEDULERS)]
    return {**CONFIG, "resource_manager": {**CONFIG["resource_manager"], "scheduler": scheduler}}


class World:
    """Made inside a running virtual loop, inside `processes()`."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        tasks: asyncio.TaskGroup,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """`config`: another master.yaml than that of the seed."""
        self.seed = seed
        self.config = config_of(seed) if config is None else config
        self.folder = folder
        self.clock = LoopClock()
        self.master_clock = LoopClock()
        """Somebody sets it now and then."""
        self.tasks = tasks
        self.storage: dict[str, int] = {}
        self.gangs: dict[str, Gang] = {}
        self.agents: dict[str, FakeAgent] = {}
        """Every machine that has not been taken away, by agent id."""
        self.lines: dict[str, MemoryChannel] = {}
        """Each agent's end of its latest connection."""
        self.trace: list[str] = []
        self.clouds = {
            name: SimulatedProvider(
                offers={ELASTIC: [offer for offer in OFFERS if offer.key.provider == name]},
                clock=self.clock,
                cluster_id="simulation",
                name=name,
                list_grace_s=LIST_GRACE_S,
                on_boot=self._booted,
                on_end=self._ended,
            )
            for name in CLOUDS
        }
        self.invariants = Invariants(self)
        self.master: MasterProcess | None = None
        self._masters: list[MasterProcess] = []
        self.restart_after_s = 1.0
        self.closing = False
        self.generation = 0
        self.wires = [Wire(seed, cloud, self.invariants, tasks) for cloud in self.clouds.values()]
        self._join_tokens = JoinTokenSigner(SECRET)
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(SECRET.hex())
        new = Identity(cluster_id="simulation", state=FolderState.CREATING)
        write_identity(folder, new)  # beside a secret nothing is made without

    @property
    def database(self) -> Path:
        return self.folder / "windlass.db"

    def note(self, what: str) -> None:
        """One line of the trace by which two runs of a seed are compared."""
        self.trace.append(f"{asyncio.get_running_loop().time():.6f} {what}")

    # --- the master ------------------------------------------------------------------------------------------------

    def start_master(self) -> MasterProcess:
        """Beside another one, if there is one: the newest is the one that answers, and is started again."""
        self.generation += 1
        self.note(f"master {self.generation} starts")
        self.master = MasterProcess(self._options, self.invariants)
        self._masters.append(self.master)
        self.tasks.create_task(self._supervise(self.master))
        return self.master

    async def _supervise(self, process: MasterProcess) -> None:
        """Start a master again when the newest has ended, as an init system does."""
        await process.buried()
        self._masters.remove(process)
        self.note(f"a master is gone: {process.failure!r}")
        self._judge(process)
        if process is self.master:
            await asyncio.sleep(self.restart_after_s)
        if process is self.master and not self.closing:
            self.start_master()

    def _judge(self, process: MasterProcess) -> None:
        """A master may end by itself if it lost the lease, or cannot even begin."""
        failure: BaseException | None = process.failure
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        lost = isinstance(failure, LeaseLost) and process is not self.master
        if failure is not None and not lost and not self.invariants.disk_is_full:
            self.invariants.broken.append(f"a master ended by itself: {failure!r}")

    def _options(self, process: MasterProcess) -> MasterOptions:
        return MasterOptions(
            deleter=NothingToDelete(),
            config=MasterConfig.model_validate(self.config),
            data_dir=self.folder,
            master_url="http://master:8080",
            clock=self.master_clock,
            ids=Ids.seeded(self.seed * 1_000 + self.generation),
            inline_store=True,
            provider=lambda *_: [wire.of(process) for wire in self.wires],
        )

    def accepted(self, trial_id: int, run_id: int) -> None:
        self.invariants.accepted(trial_id, run_id)

    async def request(self, handler: Handler[T]) -> T:
        if self.master is None:
            raise Unreachable
        return await self.master.call(handler)

    async def eventually(self, handler: Handler[T]) -> T:
        """Like `request`, until there is an answer. For what may be asked twice."""
        while True:
            try:
                return await self.request(handler)
            except (Unreachable, StoreUnavailable):
                await asyncio.sleep(0.1)

    async def submit(self, config: str) -> int:
        new = NewExperiment(config=config)
        created = await self.eventually(
            lambda services: services.experiments.create(new, by=DETERMINED)
        )
        return created.experiment_id

    async def end(self) -> None:
        """Take everything down: the masters, then all machines."""
        self.closing = True
        for process in list(self._masters):
            process.kill()
            await process.buried()
        for agent in list(self.agents.values()):
            await agent.die()
        for wire in self.wires:
            wire.close()
        for cloud in self.clouds.values():
            cloud.drop_timers()

    # --- machines --------------------------------------------------------------------------------------------------

    def machines(self) -> Sequence[SimulatedInstance]:
        """All that ever were."""
        return [machine for cloud in self.clouds.values() for machine in cloud.instances.values()]

    def living(self) -> Sequence[SimulatedInstance]:
        return [machine for machine in self.machines() if machine.ended_at is None]

    def kill(self, instance_id: str) -> None:
        for cloud in self.clouds.values():
            cloud.kill(instance_id)

    async def start_rack(self, count: int) -> None:
        """Returns when they are connected: work for a pool without agents is refused."""
        for n in range(count):
            self._power_on(f"rack-{n}", RACK, self._join_tokens.token(RACK), instance_id=None)
        for agent in list(self.agents.values()):
            await agent.until(partial(_is_connected, agent))

    def _booted(self, instance: SimulatedInstance) -> None:
        intent = instance.intent
        of_launch = [x.id for x in self.machines() if x.intent.intent_id == intent.intent_id]
        grant = JoinGrant(
            kind=JoinKind.LAUNCH,
            pool=ELASTIC,
            id=intent.intent_id,
            names=frozenset(of_launch),
            agents=intent.count,
            expires=self.master_clock.now() + JOIN_WITHIN,
        )
        token = self._join_tokens.made_for(grant)
        self._power_on(instance.id, ELASTIC, token, instance_id=instance.id)

    def _ended(self, instance: SimulatedInstance) -> None:
        self.note(f"instance {instance.id} ends")
        agent = self.agents.pop(instance.id, None)
        if agent is not None:
            self.tasks.create_task(agent.die())

    def _power_on(self, agent_id: str, pool: str, token: str, *, instance_id: str | None) -> None:
        self.note(f"machine {agent_id} is up")
        agent = FakeAgent(
            agent_id=agent_id,
            dial=self._dialler(agent_id, pool, token),
            clock=self.clock,
            pool=pool,
            slots=SLOTS,
            address=f"host-{agent_id}",
            instance_id=instance_id,
            program=self._program,
            start_s=0.5,
        )
        self.agents[agent_id] = agent
        self.tasks.create_task(agent.run())

    def _dialler(self, agent_id: str, pool: str, token: str) -> Callable[[], Awaitable[Channel]]:
        async def dial() -> Channel:
            await asyncio.sleep(0.01)
            agent_end, master_end = memory_channel()
            try:
                if self.master is None or agent_id not in self.agents:
                    raise Unreachable
                self.master.serve_agent(
                    master_end, pool=pool, token=token, credential=f"secret of {agent_id}"
                )
            except Unreachable:
                raise ChannelClosed("connection refused") from None
            self.lines[agent_id] = agent_end
            return agent_end

        return dial

    async def _program(self, spec: ContainerSpec) -> int:
        self.note(f"{spec.allocation_id} starts, rank {spec.rank}")
        if spec.task_type == "CHECKPOINT_GC":
            return 0  # the files of these trials are nowhere
        code = await Training(self, spec).run()
        self.note(f"{spec.allocation_id} leaves with {code}, rank {spec.rank}")
        return code


def _is_connected(agent: FakeAgent) -> bool:
    return agent.connected
