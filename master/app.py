"""Wires the control plane together. The only place that knows everything.

    store + lease -> auth, logs -> allocations -> resource managers -> provisioner -> experiments -> (REST)

A master starts in this order: take the lease, rebuild the live roots, tell the resource managers what they held, load
the fleet, start all loops, run the effects that a crash may have cut off, and only then serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog

from agent_bootstrap.container_options import OsUser
from master.allocations.service import AllocationService
from master.allocations.unique_ports import UniquePorts
from master.api.services import MasterInfo, Services, no_others
from master.auth.access_tokens import lifespans_of
from master.auth.first_password import first_password
from master.auth.issued_tokens import IssuedTokens
from master.auth.join_tokens import JoinTokenSigner
from master.auth.service import AuthService
from master.auth.user_settings import UserSettings
from master.checkpoints.downloads import Downloads
from master.checkpoints.workers import Deleter, WorkerProcesses
from master.cluster_message import ClusterMessages
from master.config import MasterConfig, ResolvedPool
from master.config_policies.service import ConfigPolicyService
from master.core.scheduler import decide
from master.costs.recorder import CostRecorder
from master.data_folder import exposures
from master.experiments.reports.log_watch import LogWatch
from master.leading import keep_leading, lead
from master.live.hub import LiveHub
from master.logs.master_lines import MasterLines
from master.logs.own_log import OwnLog
from master.logs.retention import LogRetention
from master.logs.store import LogStore
from master.pool_bindings.service import PoolBindingService
from master.prices.live import LivePrices
from master.prices.refresh import PriceRefresh
from master.recovery.background_check import BackgroundCheck
from master.recovery.decision import LosablePart
from master.recovery.opening import OpenedFolder, open_folder
from master.recovery.places import places_of
from master.store.blobs import BlobStore
from master.store.repositories.agents import AgentsRepository
from master.store.repositories.fleet import FleetRepository
from master.store.repositories.leases import LeaseRepository
from master.store.store import Store
from master.templates.service import TemplateService
from master.tls.serving import ServedTls
from master.updates.hub import UpdateHub
from master.wiring.agents import all_pools, fall_back_rules, pilot_sides
from master.wiring.batch.partitions import partition_memory, with_site_partitions
from master.wiring.batch.pilots import PilotProviders
from master.wiring.batch.pools import (
    JobProjects,
    TokensOfJobs,
    dispatch_options,
    job_files,
    job_token,
)
from master.wiring.batch.site import BatchSite, relay_keepers
from master.wiring.batch.users import BatchUsers
from master.wiring.cloud_boot import CloudBoot
from master.wiring.cloud_providers import all_providers
from master.wiring.cluster_identity import cluster_info
from master.wiring.control_plane import Parts, build, start_roles
from master.wiring.elastic import (
    EmbeddedProviders,
    ProviderFactory,
    embedded_of,
    live_prices,
)
from master.wiring.launch_tokens import LaunchTokens
from master.wiring.machine_boots import machine_boots
from master.wiring.task_settings import TaskSettings
from master.wiring.timed_work import housekeeping, timed_work
from master.workspaces.agent_users import AgentUsers
from provisioner.fleet.reconciler import Provisioner
from provisioner.money.budgets import Money
from rm_backends.agents.agent_pools import AgentPools
from rm_backends.agents.backend import AgentsBackend
from rm_backends.agents.leased_nodes import LeasedNodes
from rm_backends.agents.provisioned_nodes import ProvisionedNodes
from rm_backends.base import BatchOptions
from rm_backends.batch.backend import BatchBackend
from rm_backends.batch.dispatcher import Dispatcher
from rm_backends.batch.job_lines import JobLines
from rm_backends.ports import JoinTokens, LogSink
from rm_backends.router import Router
from windlass.base.clock import Clock, SystemClock
from windlass.base.ids import Ids
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

TICK_S = 1.0
"""How exactly deadlines of tasks are kept."""
RECORD_EVERY_S = 60.0
"""How old what users have spent may be where budgets are checked."""
LAST_LINES_S = 5.0
"""How long a master that stops tries to store what it still has to say in task logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterOptions:
    """How this process runs; `config` is what the operator wrote."""

    config: MasterConfig
    data_dir: Path
    master_url: str
    """Where agents and tasks reach this master."""
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=Ids)
    inline_store: bool = False
    """Run SQLite on the event loop: for simulations under virtual time."""
    provider: ProviderFactory | None = None
    """Another source of machines for elastic pools: for simulations."""
    tls: ServedTls | None = None
    """None: plain HTTP."""
    provision_every_s: float = 1.0
    deleter: Deleter = field(default_factory=WorkerProcesses)
    """Another way to delete files of checkpoints: for simulations."""
    replace_lost: frozenset[LosablePart] = frozenset()
    """Parts of the data folder to make anew if they are lost, instead of refusing to start."""
    own_log: OwnLog = field(default_factory=OwnLog)
    """What administrators read of the master's own log."""
    backup_before_upgrade: Path | None = None
    """Where to put a backup before tables of an earlier release are changed. None: nowhere."""


class Master:
    """The control plane of one cluster, without its HTTP server. `open`, then `run` until cancelled."""

    def __init__(
        self, options: MasterOptions, folder: OpenedFolder, store: Store, logs: LogStore
    ) -> None:
        """Use `open`."""
        self._folder = folder
        self._check = BackgroundCheck(options.data_dir, _database_files(options))
        self._options = options
        self._store = store
        self._logs = logs
        self._ready = asyncio.Event()
        self._services: Services | None = None
        self._dispatcher: Dispatcher | None = None
        self._pilots: PilotProviders | None = None
        self._batch_site: BatchSite | None = None
        self._agent_users = AgentUsers()
        self._batch_users: BatchUsers | None = None
        self.secret = folder.secret

    @classmethod
    async def open(cls, options: MasterOptions) -> Master:
        """Raises InvalidState for a data folder that is not whole: see `master.recovery.decision`."""
        config = await with_site_partitions(options.config, options.data_dir)
        options = replace(options, config=config)
        url = options.config.db_url(options.data_dir)
        inline = options.inline_store
        folder = await open_folder(
            places_of(options.data_dir, url),
            options.ids.uuid,
            may_replace=options.replace_lost,
            inline=inline,
            backups=options.backup_before_upgrade,
        )
        store = await Store.open(url, clock=options.clock, inline=inline)
        try:
            logs = await LogStore.open(url, inline=inline)
        except BaseException:
            await store.close()
            raise
        return cls(options, folder, store, logs)

    @property
    def services(self) -> Services:
        """What the REST API calls. Only after `ready`."""
        if self._services is None:
            raise RuntimeError("the master is not ready yet")
        return self._services

    async def ready(self) -> None:
        """Returns when everything is restored and running."""
        await self._ready.wait()

    async def checked(self) -> None:
        """Returns when the databases have been looked through."""
        await self._check.done.wait()

    async def run(self) -> None:
        """Until cancelled, or until another master takes the lease. What writes outlives what has it write."""
        try:
            async with asyncio.TaskGroup() as writers:
                epoch = await lead(self._store, self._options.ids.uuid(), self._options.data_dir)
                await self._logs.belong_to(self._folder.cluster_id)
                lines = MasterLines(self._logs, self._options.clock)
                runs = (self._store.run(), self._logs.run(), keep_leading(self._store))
                writing = [writers.create_task(run) for run in runs]
                saying = writers.create_task(lines.run())
                try:
                    async with asyncio.TaskGroup() as group:
                        await self._start(group, epoch, lines)
                finally:
                    lines.end()
                    await asyncio.wait({saying}, timeout=LAST_LINES_S)
                    for task in (saying, *writing):
                        task.cancel()
        except asyncio.CancelledError:
            await self._store.give_back_lease()
            raise
        finally:
            if self._services is not None:
                await self._services.log_watch.close()
            await self._logs.close()
            await self._store.close()

    async def _start(self, group: asyncio.TaskGroup, epoch: int, lines: MasterLines) -> None:
        options = self._options
        security = options.config.security
        auth = AuthService(
            self._store,
            options.clock,
            options.ids,
            allow_empty_password=security.allow_empty_password,
            others_change_work=security.authz.others_work == "any",
            lifespans=lifespans_of(security.token),
        )
        await auth.ensure_users(self._first_password)
        info = await cluster_info(self._store, self._folder, options.ids, options.config)
        await self._agent_users.load(self._store)
        plane = build(self._parts(lines, auth, info.cluster_id))
        await plane.webhook_registry.load()
        allocations = plane.allocations
        auth.register_allocation_tokens(allocations)
        await start_roles(plane.roles, auth, security.authz)
        join_tokens = self._join_tokens()
        await join_tokens.load()
        watch = LogWatch(
            plane.experiments.live,
            self._logs,
            lines,
            place_of=plane.tasks.place_of,
            webhooks=plane.webhook_registry,
        )
        shared = self._agent_pools(allocations, info, epoch, self._with_jobs(join_tokens), watch)
        self._batch_site = BatchSite.of(options.config.pools(), info.cluster_id, options.clock)
        leased = LeasedNodes(shared, may_go_elsewhere=lambda id_: router.refused(id_))
        dispatcher = self._dispatcher = self._make_dispatcher(leased, info, lines)
        pools = all_pools(options.config, options.data_dir)
        router, provisioned = self._resource_managers(shared, pools, dispatcher)
        allocations.connect(router)
        costs = CostRecorder(self._store, options.clock)
        prices = live_prices(options.config, options.data_dir, options.clock)
        provisioner = self._provisioner(provisioned, leased, info, epoch, costs, prices)

        await shared.load()
        await allocations.rm.restore(await plane.restore())
        if provisioner is not None:
            await provisioner.load()
            provisioned.connect(
                wake=provisioner.wake,
                capacity=provisioner.capacity,
                note_agent=provisioner.note_agent,
                machines=provisioner,
                may_be_away=self._pilot_may_be_away,
            )
            group.create_task(provisioner.run())
        else:
            for instance_id, _ in (await FleetRepository(self._store).load()).instances:
                log.error("still billing: no pool has a provider any more", instance=instance_id)
        for keeper in relay_keepers(
            options.config, options.data_dir, options.master_url, own_tls=options.tls is not None
        ):
            group.create_task(keeper.run())
        group.create_task(shared.run())
        group.create_task(allocations.rm.run())
        group.create_task(allocations.run())
        for name, tick in (
            ("deadlines", plane.experiments.roots.tick),
            ("deadlines of tasks", plane.tasks.roots.tick),
            ("deadlines of collections", plane.on_agents.roots.tick),
        ):
            group.create_task(Loop(name, tick, interval_s=TICK_S).run())
        group.create_task(plane.collector.run())
        group.create_task(plane.removals.run())
        group.create_task(plane.deliveries.run())
        group.create_task(
            housekeeping(self._store, auth, join_tokens, plane.parts.blobs, options.clock).run()
        )
        group.create_task(Loop("costs", costs.record, interval_s=RECORD_EVERY_S).run())
        updates = UpdateHub(self._store, auth.rights)
        group.create_task(updates.run())
        live = LiveHub(self._store, auth.rights)
        group.create_task(live.run())
        for pool in shared.by_name.values():
            pool.decided = live.note_decision
        messages = ClusterMessages(self._store, options.clock)
        await messages.load()
        retention = LogRetention(
            self._store,
            self._logs,
            options.clock,
            days=options.config.retention_policy.log_retention_days,
        )
        if not options.inline_store:  # its scheduler knows only the machine's clock
            vendors = PriceRefresh(prices, options.config.prices.refresh, options.clock)
            schedule = options.config.retention_policy.schedule
            work = timed_work(costs, prices, vendors, retention, clean_logs=schedule)
            group.create_task(work.run())
        group.create_task(self._check.run())
        group.create_task(plane.experiments.storage_checks.warn_of_cluster_storage())
        await plane.resume()
        group.create_task(plane.experiments.points.run())
        self._services = Services(
            master_url=options.master_url,
            info=info,
            config=options.config,
            store=self._store,
            price_troubles=lambda: prices.troubles,
            database_is_damaged=lambda: bool(self._check.damaged) or self._store.is_damaged,
            blobs=plane.parts.blobs,
            auth=auth,
            user_settings=UserSettings(self._store),
            experiments=plane.experiments,
            tasks=plane.tasks,
            generic=plane.generic,
            templates=TemplateService(self._store, options.clock),
            config_policies=ConfigPolicyService(self._store, options.clock),
            pool_bindings=PoolBindingService(
                self._store,
                plane.rules.pool_bindings,
                defaults=(options.config.default_compute_pool, options.config.default_aux_pool),
            ),
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
            downloads=Downloads(self._store, plane.places),
            allocations=allocations,
            storage_secrets=plane.parts.cluster_tasks.storage_secrets,
            jobs=plane.jobs(router),
            logs=self._logs,
            log_watch=watch,
            own_log=options.own_log,
            messages=messages,
            retention=retention,
            cluster=router,
            operator_of=router.operator_of,
            gateway=shared.gateway,
            streams=shared.streams,
            joins=shared.joins,
            refused_agents=shared.refusals.all,
            foreseer=shared,
            fall_back=router.fall_back,
            join_tokens=join_tokens,
            boots=machine_boots(
                options.config.pools(),
                provisioner,
                joins=shared.joins,
                data_dir=options.data_dir,
                clock=options.clock,
            ),
            provisioner=provisioner,
            costs=costs,
            jobs_of_others=no_others if dispatcher is None else dispatcher.others,
            clock=options.clock,
            certificate_names=options.tls.names if options.tls is not None else tuple,
            certificate_fingerprint=self._fingerprint,
        )
        elastic = any(embedded_of(pool) for pool in options.config.pools())
        for warning in exposures(
            options.data_dir, runs_agents=elastic and options.provider is None
        ):
            log.warning(warning)
        log.info("master is ready", epoch=epoch, cluster=info.cluster_id, pools=router.pools())
        self._ready.set()

    def _fingerprint(self) -> str:
        """Of the certificate that stays the longest: of the authority, where it is served."""
        tls = self._options.tls
        return "" if tls is None else tls.certificate.fingerprints[-1]

    def _first_password(self) -> str:
        security = self._options.config.security
        if security.initial_user_password or security.allow_empty_password:
            return security.initial_user_password
        return first_password(self._options.data_dir)

    def _agent_pools(
        self,
        allocations: AllocationService,
        info: MasterInfo,
        epoch: int,
        join_tokens: JoinTokens,
        log_sink: LogSink,
    ) -> AgentPools:
        options = self._options
        return AgentPools(
            events=allocations,
            agent_store=AgentsRepository(self._store),
            log_sink=log_sink,
            join_tokens=join_tokens,
            logins=allocations,
            clock=options.clock,
            ids=options.ids,
            epoch=epoch,
            master_id=info.master_id,
            cluster_id=info.cluster_id,
            cluster_name=info.cluster_name,
            certificates=options.tls.pem if options.tls is not None else str,
        )

    def _resource_managers(
        self, shared: AgentPools, pools: Sequence[ResolvedPool], dispatcher: Dispatcher | None
    ) -> tuple[Router, ProvisionedNodes]:
        """All of them behind the router, and the nodes that the provisioner sees."""
        config = self._options.config
        of_site = [one for one in pools if one.batch is not None and not one.closed]
        agents = AgentsBackend(shared, [one for one in pools if one not in of_site], decide)
        backends = [agents]
        if dispatcher is not None:
            backends.append(BatchBackend(shared, of_site, dispatcher))
        router = Router(
            backends,
            fall_back=fall_back_rules(config),
            clock=self._options.clock,
            pilot_sides=pilot_sides(config),
            order=[one.name for one in pools],
        )
        return router, ProvisionedNodes(shared, agents.by_name.values())

    def _parts(self, lines: MasterLines, auth: AuthService, cluster_id: str) -> Parts:
        options = self._options
        settings = TaskSettings(options.config, options.data_dir)
        return Parts(
            logs=self._logs,
            cluster_id=cluster_id,
            storage=settings.storage,
            deleter=options.deleter,
            store=self._store,
            blobs=BlobStore(options.data_dir / "blobs", inline=options.inline_store),
            clock=options.clock,
            ids=options.ids,
            secret=self.secret,
            policy=settings.policy(),
            task_log=lines,
            ports=UniquePorts(options.config.reserved_ports),
            shell_keys=options.config.security.ssh,
            cluster_tasks=settings.cluster_tasks(
                auth.agent_user, self._agent_users.of, self._require_user
            ),
            agent_users=self._agent_users,
            authz=options.config.security.authz,
            webhooks=options.config.webhooks,
        )

    def _provisioner(
        self,
        provisioned: ProvisionedNodes,
        leased: LeasedNodes,
        info: MasterInfo,
        epoch: int,
        costs: CostRecorder,
        prices: LivePrices,
    ) -> Provisioner | None:
        options = self._options
        elastic = [p for p in options.config.pools() if p.is_elastic]
        make = options.provider or self._all_providers(prices, leased)
        providers = make(elastic, info.cluster_id)
        if not providers:
            return None
        return Provisioner(
            pools=[pool.settings for pool in elastic],
            providers=providers,
            host=provisioned,
            store=FleetRepository(self._store, costs.note),
            clock=options.clock,
            ids=options.ids,
            cluster_id=info.cluster_id,
            generation=epoch,
            interval_s=options.provision_every_s,
            money=Money(options.config.budget, lambda: costs.spending),
        )

    async def _require_user(self, pool: str, who: OsUser | None, batch: BatchOptions) -> None:
        if self._batch_users is not None:
            await self._batch_users.require(pool, who, batch)

    def _with_jobs(self, join_tokens: JoinTokens) -> JoinTokens:
        def is_live(tag: str) -> bool:
            dispatched = self._dispatcher is not None and self._dispatcher.is_live(tag)
            return dispatched or (self._pilots is not None and self._pilots.is_live(tag))

        return TokensOfJobs(join_tokens, is_live)

    def _pilot_may_be_away(self, agent_id: str) -> bool:
        return self._pilots is not None and self._pilots.may_be_away(agent_id)

    def _make_dispatcher(
        self, leased: LeasedNodes, info: MasterInfo, lines: MasterLines
    ) -> Dispatcher | None:
        options = self._options
        pools = [pool for pool in options.config.pools() if pool.batch is not None]
        if self._batch_site is None:
            return None
        site = self._batch_site.part()
        partitions = partition_memory(options.config, options.data_dir)
        if site.users is not None:
            dispatch = [dispatch_options(pool) for pool in pools]
            elsewhere = [pool.name for pool in pools if pool.fall_back.pools]
            self._batch_users = BatchUsers(dispatch, site.users, options.clock, elsewhere)
        files = job_files(
            pools,
            site=site,
            data_dir=options.data_dir,
            master_url=options.master_url,
            master_cert=None if options.tls is None else options.tls.files.cert.absolute(),
        )
        return Dispatcher(
            pools=[dispatch_options(pool) for pool in pools],
            system=site.system,
            host=leased,
            store=JobLines(LeaseRepository(self._store), lines, files),
            files=files,
            token=partial(job_token, JoinTokenSigner(self.secret)),
            clock=options.clock,
            ids=options.ids,
            cluster_id=info.cluster_id,
            check_lease=self._store.check_lease,
            on_site=None if partitions is None else partitions.watch,
            project_of=JobProjects(self._store, pools).of,
            users=site.users,
        )

    def _all_providers(self, prices: LivePrices, leased: LeasedNodes) -> ProviderFactory:
        options = self._options
        tokens = LaunchTokens(JoinTokenSigner(self.secret))
        cert = None if options.tls is None else options.tls.files.cert.absolute()
        embedded = EmbeddedProviders(
            data_dir=options.data_dir,
            master_url=options.master_url,
            master_cert=cert,
            tokens=tokens,
            clock=options.clock,
            prices=prices,
        )
        self._pilots = PilotProviders(
            data_dir=options.data_dir,
            master_url=options.master_url,
            master_cert=cert,
            token=partial(job_token, JoinTokenSigner(self.secret)),
            clock=options.clock,
            check_lease=self._store.check_lease,
            host=leased,
            site=None if self._batch_site is None else self._batch_site.part(),
        )
        boot = CloudBoot(master_url=options.master_url, master_cert=cert, tokens=tokens)
        return all_providers(embedded, boot, self._pilots)

    def _join_tokens(self) -> IssuedTokens:
        options = self._options
        return IssuedTokens(
            self._store,
            options.clock,
            options.ids,
            others=JoinTokenSigner(self.secret),
            pools=tuple(pool.name for pool in options.config.pools()),
        )


def _database_files(options: MasterOptions) -> Sequence[Path]:
    """To look through in the background; none for simulations, which have no threads."""
    files = places_of(options.data_dir, options.config.db_url(options.data_dir)).files
    return () if files is None or options.inline_store else (files.state, files.logs)
