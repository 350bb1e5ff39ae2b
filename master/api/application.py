"""The ASGI application: every route, behind the middlewares that make requests plain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from fastapi import FastAPI
from starlette.routing import BaseRoute

from master.api import errors
from master.api.agents import boot, join_tokens
from master.api.agents import joining as agent_joining
from master.api.agents import routes as agents
from master.api.agents import socket as agent_socket
from master.api.checkpoints import downloads as checkpoint_downloads
from master.api.checkpoints import routes as checkpoints
from master.api.cluster import description, monitoring, own_log, usage
from master.api.cluster import message as cluster_message
from master.api.cluster import routes as cluster
from master.api.config_policies import routes as config_policies
from master.api.experiments import actions as experiment_actions
from master.api.experiments import bulk as experiment_bulk
from master.api.experiments import finding as experiment_finding
from master.api.experiments import metric_streams, model_files, preview_gc, preview_search
from master.api.experiments import routes as experiments
from master.api.experiments import series as experiment_series
from master.api.experiments import unmanaged as unmanaged_experiments
from master.api.experiments import values as experiment_values
from master.api.http.browsers import BrowserRules
from master.api.http.known_hosts import KnownHosts, host_of, origin_of
from master.api.http.middleware import JsonBodies, PlainUrls, UnreadBodies
from master.api.http.trusted_proxies import TrustedProxies
from master.api.interactive import routes as interactive
from master.api.jobs import routes as jobs
from master.api.live import socket as live_socket
from master.api.logs import retention as log_retention
from master.api.logs import routes as logs
from master.api.models import routes as models
from master.api.models import versions as model_versions
from master.api.openapi import DescribedApp
from master.api.proxy.middleware import Proxy
from master.api.resource_pools import bindings as pool_bindings
from master.api.resource_pools import routes as resource_pools
from master.api.roles import groups as user_groups
from master.api.roles import routes as roles
from master.api.roles.sight import shows_roles
from master.api.route_table import RouteTable
from master.api.services import ApiContext, Services, make_api
from master.api.tasks import allocations, generic
from master.api.tasks import routes as tasks
from master.api.templates import routes as templates
from master.api.trials import metrics, profiler, run_actions, runs, time_series
from master.api.trials import routes as trials
from master.api.updates import socket as update_socket
from master.api.users import open_sessions, session
from master.api.users import routes as users
from master.api.users import settings as user_settings
from master.api.users import tokens as access_tokens
from master.api.webhooks import alerts as webhook_alerts
from master.api.webhooks import routes as webhooks
from master.api.windlass import bakes as windlass_bakes
from master.api.windlass import costs as windlass_costs
from master.api.windlass import external_searches
from master.api.windlass import offers as windlass_offers
from master.api.windlass import plans as windlass_plans
from master.api.windlass import routes as windlass
from master.api.windlass import timelines as windlass_timelines
from master.api.workspaces import projects
from master.api.workspaces import routes as workspaces
from master.webui import pages, shell, sign_in, task_pages

ROUTES: Sequence[BaseRoute] = (
    *description.router.routes,
    *session.router.routes,
    *cluster.router.routes,
    *cluster_message.router.routes,
    *own_log.router.routes,
    *usage.router.routes,
    *experiments.router.routes,
    *experiment_actions.router.routes,
    *experiment_bulk.router.routes,
    *unmanaged_experiments.router.routes,
    *experiment_finding.router.routes,
    *model_files.router.routes,
    *experiment_values.router.routes,
    *experiment_series.router.routes,
    *metric_streams.router.routes,
    *time_series.router.routes,
    *profiler.router.routes,
    *interactive.ROUTES,
    *metrics.router.routes,
    *metrics.hot.routes,
    *trials.router.routes,
    *trials.hot.routes,
    *checkpoints.router.routes,
    *checkpoint_downloads.router.routes,
    *preview_gc.router.routes,
    *preview_search.router.routes,
    *runs.router.routes,
    *run_actions.router.routes,
    *allocations.router.routes,
    *allocations.hot.routes,
    *log_retention.router.routes,
    *logs.router.routes,
    *logs.hot.routes,
    *tasks.router.routes,
    *generic.router.routes,
    *agents.router.routes,
    *agent_joining.router.routes,
    *boot.router.routes,
    *join_tokens.router.routes,
    *agent_socket.router.routes,
    *resource_pools.router.routes,
    *jobs.router.routes,
    *user_groups.router.routes,
    *roles.router.routes,
    *user_settings.router.routes,
    *users.router.routes,
    *access_tokens.router.routes,
    *open_sessions.router.routes,
    *workspaces.router.routes,
    *projects.router.routes,
    *templates.router.routes,
    *config_policies.router.routes,
    *pool_bindings.router.routes,
    *models.router.routes,
    *update_socket.router.routes,
    *live_socket.router.routes,
    *webhooks.router.routes,
    *webhook_alerts.router.routes,
    *model_versions.router.routes,
    *windlass.router.routes,
    *windlass_bakes.router.routes,
    *external_searches.router.routes,
    *windlass_costs.router.routes,
    *windlass_offers.router.routes,
    *windlass_plans.router.routes,
    *windlass_timelines.router.routes,
    *monitoring.router.routes,
    *pages.router.routes,
    *sign_in.router.routes,
    *task_pages.router.routes,
    *shell.router.routes,
)


def build_app(services: Services) -> DescribedApp:
    """`master.app` serves it, and calls `begin_shutdown` when the server is to stop."""
    app = DescribedApp(
        title="Windlass",
        version=services.info.windlass_version,
        openapi_url=None,  # the three are routes like others
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.api = make_api(services)
    told = shows_roles(services.config.security.authz)
    errors.install(app, pages.error_page, shows_roles=told)
    app.router.routes.extend(ROUTES)
    app.router.middleware_stack = RouteTable(app.router.routes, errors.refuse_socket)
    # The last one comes first: the rules for browsers see plain paths, and bodies as they were sent.
    config, security = services.config, services.config.security
    names = (config.host, host_of(services.master_url), *security.allowed_hosts)
    app.add_middleware(JsonBodies)
    app.add_middleware(Proxy)
    app.add_middleware(
        BrowserRules,
        hosts=KnownHosts(names, more=services.certificate_names),
        own_origin=origin_of(services.master_url),
        everybody=security.allow_empty_password,
    )
    app.add_middleware(PlainUrls)
    app.add_middleware(UnreadBodies)
    app.add_middleware(TrustedProxies, trusted=security.trusted_proxies)
    return app


def begin_shutdown(app: FastAPI) -> None:
    """Answer all long polls and end all followed logs: a server waits for them before it stops."""
    cast("ApiContext", app.state.api).closing.set()
