"""A whole control plane behind the real ASGI application: real store, services and agents backend, simulated agents."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
from argon2 import PasswordHasher
from sqlalchemy import select

from agent_bootstrap.protocol import Channel, ChannelClosed
from agent_bootstrap.scripts.boot_files import BootSettings
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.machine import AllocationPhase, AllocationState
from master.allocations.policy import ClusterPolicy
from master.allocations.tokens import AllocationTokenMint
from master.api.application import build_app
from master.api.openapi import DescribedApp
from master.api.services import MasterInfo, Services
from master.auth.access_tokens import lifespans_of
from master.auth.issued_tokens import IssuedTokens
from master.auth.passwords import Passwords
from master.auth.service import AuthService
from master.auth.user_settings import UserSettings
from master.boots.outputs import BootOutputs
from master.boots.service import BootService
from master.boots.wheels import AgentWheels
from master.checkpoints.downloads import Downloads
from master.cluster_message import ClusterMessages
from master.config import MasterConfig, load
from master.config_policies.service import ConfigPolicyService
from master.core.expconf import ClusterDefaults
from master.core.expconf.references import take_secrets
from master.core.fall_back import FallBackRule
from master.core.scheduler.types import SchedulerSettings
from master.costs.recorder import CostRecorder
from master.experiments.reports.log_watch import LogWatch
from master.experiments.sampling.process import Sampler, SamplerProcess
from master.live.hub import LiveHub
from master.logs.master_lines import MasterLines
from master.logs.own_log import OwnLog
from master.logs.retention import LogRetention
from master.logs.store import LogStore
from master.pool_bindings.service import PoolBindingService
from master.store import tables
from master.store.blobs import BlobStore
from master.store.repositories.agents import AgentsRepository
from master.store.store import Store
from master.templates.service import TemplateService
from master.updates.hub import UpdateHub
from master.webhooks.deliveries import Deliveries
from master.wiring.control_plane import Parts, build, start_roles
from master.workspaces.deletion import Removals
from master.workspaces.first import first_rows
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.backend import AgentsBackend
from rm_backends.agents.pool import UNDECIDED
from rm_backends.base import RmEvents
from rm_backends.router import RoutedBackend, Router
from tests.fakes.agents_world import TOKEN, OneToken
from tests.fakes.declared_replies import DeclaredReplies
from tests.fakes.fake_agent import FakeAgent
from tests.fakes.first_fit import first_fit
from tests.fakes.inline_deleter import InlineDeleter
from tests.fakes.memory_channel import memory_channel
from tests.fakes.one_instance import OneInstance
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.clock import ManualClock
from windlass.base.ids import Ids
from windlass.install.wheels import Wheel

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "Correct-horse-1"
BOOT = BootSettings(startup_script="echo of-the-pool\n", agent={"label": "cloud", "agent_id": "x"})
WHEEL = Wheel("one-1-py3-none-any.whl", b"not really one")
"""Of admin and determined."""
SINGLE = """
name: tiny
labels: [first]
entrypoint: python3 train.py
searcher: {name: single, metric: loss, smaller_is_better: true}
hyperparameters: {lr: 0.5}
max_restarts: 2
resources: {slots_per_trial: 1}
"""
ASHA = """
name: search
entrypoint: python3 train.py
searcher:
  name: async_halving
  metric: loss
  smaller_is_better: true
  num_rungs: 2
  divisor: 2
  max_trials: 4
  max_concurrent_trials: 4
  max_time: 8
  time_metric: epochs
hyperparameters: {lr: {type: double, minval: 0.0, maxval: 1.0}}
resources: {slots_per_trial: 1}
"""


SPOT = "site/east/east-1/gpu-8/spot"
"""An offer that is refused until it is tried again."""


@dataclass(slots=True)
class ApiWorld:
    """`client` is nobody until `login`; `as_task` acts with the token of an allocation."""

    app: DescribedApp
    services: Services
    clock: ManualClock
    mint: AllocationTokenMint
    tasks: asyncio.TaskGroup
    client: httpx2.AsyncClient
    removals: Removals
    """Does nothing but what `step` is called for, as the next."""
    deliveries: Deliveries
    agents: dict[str, FakeAgent] = field(default_factory=dict)
    token: str = ""
    _declared: DeclaredReplies | None = None

    # Calls

    async def call(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, **options: Any
    ) -> httpx2.Response:
        headers = dict(options.pop("headers", {}))
        token = self.token if token is None else token
        if token:
            headers["Authorization"] = f"Bearer {token}"
        content = options.pop("content", None if body is None else json.dumps(body).encode())
        try:
            response = await self.client.request(
                method, path, content=content, headers=headers, **options
            )
        finally:
            self.client.cookies.clear()  # tokens are given, not remembered
        if self._declared is None:
            self._declared = DeclaredReplies(self.app)
        self._declared.check(response)
        return response

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        response = await self.call(method, path, body, **options)
        assert response.status_code == 200, (method, path, response.text)
        return response.json()

    async def refused(
        self, status: int, method: str, path: str, body: Any = None, **options: Any
    ) -> str:
        """The message of an error that has the published shape."""
        response = await self.call(method, path, body, **options)
        assert response.status_code == status, (method, path, response.text)
        error = response.json()["error"]
        assert isinstance(error["code"], int)
        assert error["reason"]
        return str(error["error"])

    async def lines(self, path: str, **options: Any) -> list[Any]:
        """The results of a stream."""
        response = await self.call("GET", path, **options)
        assert response.status_code == 200, response.text
        return [json.loads(line)["result"] for line in response.text.splitlines()]

    async def login(self, name: str = "admin", password: str = PASSWORD) -> str:
        body = {"username": name, "password": password}
        self.token = (await self.ok("POST", "/api/v1/auth/login", body, token=""))["token"]
        return self.token

    async def create(self, config: str = SINGLE, **body: Any) -> int:
        """Returns when the scheduler has looked at all that waits: everything has its reason then."""
        body = {"config": config, "activate": True, "modelDefinition": [], **body}
        created = await self.ok("POST", "/api/v1/experiments", body)
        queue = self.services.cluster.queue
        while any(entry.reason == UNDECIDED for entry in queue("default")):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
        return int(created["experiment"]["id"])

    # The cluster

    async def add_agent(
        self, agent_id: str = "node-1", *, credential: str = "", **options: Any
    ) -> FakeAgent:
        async def dial() -> Channel:
            agent_end, master_end = memory_channel()
            serving = self.services.gateway.serve(
                master_end, pool="default", token=TOKEN, credential=credential, peer="10.0.0.1"
            )
            try:
                self.tasks.create_task(serving)
            except RuntimeError:  # the world ends
                serving.close()
                raise ChannelClosed("no master") from None
            return agent_end

        agent = FakeAgent(agent_id=agent_id, dial=dial, clock=self.clock, **options)
        self.agents[agent_id] = agent
        self.tasks.create_task(agent.run())
        await agent.until(lambda: agent.connected)
        return agent

    async def run_of(self, experiment_id: int, index: int = 0) -> AllocationState:
        """The run of the experiment's trial number `index`, once it runs."""
        live = self.services.experiments.live(experiment_id)
        assert live is not None

        def run() -> AllocationState | None:
            trials = list(live.state.trials.values())
            return trials[index].open_allocation if len(trials) > index else None

        def runs(_: object) -> bool:
            found = run()
            return found is not None and found.phase is AllocationPhase.RUNNING

        await live.wait_until(runs)
        found = run()
        assert found is not None
        return found

    def task_token(self, run: AllocationState) -> str:
        return self.mint.token(run.id)

    def trial_id(self, experiment_id: int, index: int = 0) -> int:
        live = self.services.experiments.live(experiment_id)
        assert live is not None
        return list(live.state.trials.values())[index].id

    async def report(
        self, trial_id: int, group: str, steps: int, run_id: int = 1, **metrics: Any
    ) -> httpx2.Response:
        body = {
            "group": group,
            "metrics": {
                "trialId": trial_id,
                "trialRunId": run_id,
                "stepsCompleted": steps,
                "reportTime": None,
                "metrics": {"avgMetrics": metrics, "batchMetrics": None},
            },
        }
        return await self.call("POST", f"/api/v1/trials/{trial_id}/metrics", body)

    async def checkpoint(
        self,
        run: AllocationState,
        uuid: str,
        steps: int,
        at: str = "2026-01-01T00:00:00+00:00",
    ) -> None:
        body = {
            "uuid": uuid,
            "taskId": run.task_id,
            "allocationId": run.id,
            "state": "STATE_COMPLETED",
            "metadata": {"steps_completed": steps},
            "resources": {"a.txt": "5", "dir/": "0"},
            "reportTime": at,
            "training": {},
        }
        await self.ok("POST", "/api/v1/checkpoints", body)

    async def finish(self, run: AllocationState, code: int = 0) -> None:
        """End the run's containers and wait until the master knows."""
        for state in run.containers:
            agent = self.agents[state.container.agent_id]
            agent.exit(state.container.container_id, code)
        live = self.services.experiments.live_of_trial(
            next(
                t.id
                for e in self.services.experiments.all_live()
                for t in e.state.trials.values()
                if t.task_id == run.task_id
            )
        )
        assert live is not None
        await live.wait_until(
            lambda s: all(
                t.allocation is None or t.allocation.id != run.id or not t.allocation.is_open
                for t in s.trials.values()
            )
        )

    async def collected(self, *, attempts: int = 0) -> None:
        """Returns when all that is to be deleted is deleted, or was tried more than so often."""
        gc = tables.CheckpointGc
        waiting = select(gc.task_id).where(gc.attempts <= attempts)
        while await self.services.store.read(waiting):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)


MakeBackend: TypeAlias = Callable[[RmEvents], RoutedBackend]


@asynccontextmanager
async def api_world(
    tmp_path: Path,
    *,
    elastic: bool = False,
    spare: bool = False,
    scheduler: SchedulerSettings | None = None,
    backends: Mapping[str, MakeBackend] | None = None,
    defaults: ClusterDefaults | None = None,
    db_url: str = "sqlite://",
    others_change_work: bool = False,
    security: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    sampler: Sampler | None = None,
) -> AsyncIterator[ApiWorld]:
    """`spare`: an elastic pool that work of `default` may fall back to.

    `backends`, by pool, stand beside the pool `default` of agents; each is given where it reports to.

    `defaults`: what lies under the configurations of all pools. `security`: that section of master.yaml.
    `settings`: other keys of it, by their dotted names.
    """
    inline = db_url == "sqlite://"
    clock, ids = ManualClock(), Ids.seeded(1)
    async with AsyncExitStack() as stack:
        store = await Store.open(db_url, clock=clock, inline=inline)
        stack.push_async_callback(store.close)
        logs = await LogStore.open(db_url, inline=inline)
        stack.push_async_callback(logs.close)
        epoch = await store.take_lease("test")
        with suppress(_Over):
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(store.run())
                    tasks.create_task(logs.run())
                    world = await _start(
                        *(tasks, store, logs, clock, ids, epoch, tmp_path),
                        elastic=elastic,
                        spare=spare,
                        scheduler=scheduler or SchedulerSettings(),
                        backends=backends or {},
                        defaults=defaults,
                        others_change_work=others_change_work,
                        sampler=sampler or SamplerProcess(),
                        config=load(
                            None,
                            overrides={
                                **{f"security.{k}": v for k, v in (security or {}).items()},
                                **(settings or {}),
                            },
                        ),
                    )
                    stack.push_async_callback(world.services.log_watch.close)
                    async with world.client:
                        yield world
                    raise _Over
            except* _Over:
                pass


class _Over(Exception):
    """Ends the world's task group."""


async def _start(
    tasks: asyncio.TaskGroup,
    store: Store,
    logs: LogStore,
    clock: ManualClock,
    ids: Ids,
    epoch: int,
    tmp_path: Path,
    *,
    elastic: bool,
    spare: bool,
    scheduler: SchedulerSettings,
    backends: Mapping[str, MakeBackend],
    defaults: ClusterDefaults | None,
    others_change_work: bool,
    sampler: Sampler,
    config: MasterConfig,
) -> ApiWorld:
    auth = AuthService(
        store,
        clock,
        ids,
        passwords=Passwords(CHEAP),
        others_change_work=others_change_work,
        lifespans=lifespans_of(config.security.token),
        allow_empty_password=config.security.allow_empty_password,
    )
    await auth.ensure_users(lambda: PASSWORD)
    await store.commit(first_rows(store))
    lines = MasterLines(logs, clock)
    tasks.create_task(lines.run())
    storage = {"type": "shared_fs", "host_path": str(tmp_path)}
    under, secrets = take_secrets(defaults or ClusterDefaults(checkpoint_storage=storage))
    pools = ("default", *backends)
    plane = build(
        Parts(
            store=store,
            blobs=BlobStore(tmp_path / "blobs", inline=True),
            clock=clock,
            ids=ids,
            secret=b"secret",
            policy=ClusterPolicy(
                defaults=dict.fromkeys(pools, under),
                launch_error=False,
            ),
            cluster_tasks=ClusterTasks(secrets=dict.fromkeys(pools, secrets)),
            task_log=lines,
            logs=logs,
            cluster_id="cluster",
            storage=under.checkpoint_storage,
            deleter=InlineDeleter(),
            sampler=sampler,
            authz=config.security.authz,
            webhooks=config.webhooks,
        )
    )
    tasks.create_task(plane.experiments.points.run())
    allocations = plane.allocations
    auth.register_allocation_tokens(allocations)
    await start_roles(plane.roles, auth, config.security.authz)
    join_tokens = IssuedTokens(store, clock, ids, others=OneToken(), pools=("default",))
    await join_tokens.load()
    watch = LogWatch(
        plane.experiments.live,
        logs,
        lines,
        place_of=plane.tasks.place_of,
        webhooks=plane.webhook_registry,
    )
    shared = AgentPools(
        events=allocations,
        agent_store=AgentsRepository(store),
        log_sink=watch,
        join_tokens=join_tokens,
        logins=allocations,
        clock=clock,
        ids=ids,
        epoch=epoch,
        master_id="master",
        cluster_id="cluster",
        cluster_name="test",
    )
    options = [
        resolved_pool(name, *([EMBEDDED] if elastic else []), scheduler=scheduler)
        for name in ("default", *(["spare"] if spare else []))
    ]
    agents = AgentsBackend(shared, options, first_fit)
    router = Router(
        [agents, *(make(allocations) for make in backends.values())],
        fall_back={"default": FallBackRule(pools=("spare",))} if spare else None,
    )
    allocations.connect(router)
    await shared.load()
    await router.restore(())
    tasks.create_task(shared.run())
    tasks.create_task(router.run())
    tasks.create_task(allocations.run())
    tasks.create_task(plane.collector.run())
    updates = UpdateHub(store, auth.rights, gather_s=0)
    tasks.create_task(updates.run())
    live = LiveHub(store, auth.rights, gather_s=0)
    tasks.create_task(live.run())
    for pool in shared.by_name.values():
        pool.decided = live.note_decision
    provisioner = OneInstance(clock) if elastic else None
    services = Services(
        master_url="http://master",
        info=MasterInfo(
            master_id="master",
            cluster_id="cluster",
            cluster_name="test",
            version="0.38.1",
            windlass_version="0.1.0",
        ),
        config=config,
        store=store,
        blobs=plane.parts.blobs,
        auth=auth,
        user_settings=UserSettings(store),
        experiments=plane.experiments,
        tasks=plane.tasks,
        generic=plane.generic,
        templates=TemplateService(store, clock),
        config_policies=ConfigPolicyService(store, clock),
        pool_bindings=PoolBindingService(store, plane.rules.pool_bindings, defaults=("default",)),
        rules=plane.rules,
        webhooks=plane.webhooks,
        webhook_registry=plane.webhook_registry,
        workspaces=plane.workspaces,
        projects=plane.projects,
        models=plane.models,
        versions=plane.versions,
        updates=updates,
        live=live,
        roles=plane.roles,
        reports=plane.reports,
        metadata=plane.metadata,
        checkpoints=plane.checkpoints,
        downloads=Downloads(store, plane.places),
        allocations=allocations,
        storage_secrets=plane.parts.cluster_tasks.storage_secrets,
        jobs=plane.jobs(router),
        logs=logs,
        log_watch=watch,
        own_log=OwnLog(set_up=lambda level, color, more: None),
        messages=ClusterMessages(store, clock),
        retention=LogRetention(store, logs, clock, days=config.retention_policy.log_retention_days),
        cluster=router,
        operator_of=router.operator_of,
        gateway=shared.gateway,
        streams=shared.streams,
        joins=shared.joins,
        refused_agents=shared.refusals.all,
        foreseer=shared,
        fall_back=router.fall_back,
        join_tokens=join_tokens,
        boots=BootService(
            joins=shared.joins,
            settings=lambda pool, launch_id: BOOT,
            wheels=AgentWheels(tmp_path / "wheels", make=lambda: [WHEEL]),
            outputs=BootOutputs(tmp_path / "boot-output"),
            clock=clock,
            images=provisioner and provisioner.bakery,
        ),
        provisioner=provisioner,
        costs=CostRecorder(store, clock),
        clock=clock,
    )
    app = build_app(services)
    client = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url="http://master", timeout=30
    )
    return ApiWorld(
        app, services, clock, plane.mint, tasks, client, plane.removals, plane.deliveries
    )


def file(path: str, content: bytes = b"", *, mode: int = 0o100644) -> dict[str, Any]:
    """One file of a model definition, as the published client sends it."""
    return {
        "path": path,
        "type": 48,
        "content": base64.b64encode(content).decode(),
        "mtime": "1742464800",
        "mode": mode,
        "uid": 0,
        "gid": 0,
    }
