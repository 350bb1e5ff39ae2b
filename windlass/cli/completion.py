"""Shell completion of ids: what the master has now. A master that does not answer soon completes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.base.errors import WindlassError

if TYPE_CHECKING:
    from windlass.sdk.client import Client

TIMEOUT_S = 1.0
"""Somebody has pressed the tab key and waits."""
NEWEST = 50
NEWEST_WITH_PARTS = 3
"""Experiments whose trials or checkpoints are offered: each is one more request."""

Items = Iterable[tuple[object, object]]
"""Ids, each with a word on what it is."""


def _completer(ids: Callable[[Client], Items]) -> Callable[[typer.Context, str], Items]:
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        from windlass.cli.connect import settings_of
        from windlass.sdk.client import Client
        from windlass.sdk.credentials import TokenCache, master_url, open_session

        settings = settings_of(ctx)
        try:
            url = master_url(settings.master, os.environ)
            cache = TokenCache()
            user = settings.user or cache.active_user(url)
            token = cache.token(url, user) if user else None
            with open_session(url, os.environ, token, timeout_s=TIMEOUT_S) as session:
                found = [(str(id_), str(text or "")) for id_, text in ids(Client(session))]
        except (WindlassError, OSError):
            return []
        return [(id_, text) for id_, text in found if id_.startswith(incomplete)]

    return complete


def _experiments(client: Client) -> Items:
    for one in reversed(client.experiments(newest=NEWEST, configs=False)):
        yield one["id"], one.get("name")


def _trials(client: Client) -> Items:
    for experiment in reversed(client.experiments(newest=NEWEST_WITH_PARTS, configs=False)):
        for trial in client.trials(experiment["id"]):
            yield trial["id"], f"of {experiment.get('name')}"


def _checkpoints(client: Client) -> Items:
    for experiment in reversed(client.experiments(newest=NEWEST_WITH_PARTS, configs=False)):
        for checkpoint in client.checkpoints(experiment["id"]):
            yield checkpoint["uuid"], f"of {experiment.get('name')}"


def _agents(client: Client) -> Items:
    for agent in client.agents():
        yield agent["id"], ", ".join(agent.get("resourcePools") or [])


def _jobs(client: Client) -> Items:
    for job in client.jobs(limit=NEWEST):
        yield job["jobId"], job.get("name")


def _pools(client: Client) -> Items:
    for pool in client.resource_pools():
        yield pool["name"], pool.get("description")


def _templates(client: Client) -> Items:
    for template in client.templates().listed():
        yield template["name"], template.get("username")


complete_agents = _completer(_agents)
complete_jobs = _completer(_jobs)
complete_pools = _completer(_pools)
complete_templates = _completer(_templates)


def complete_tasks(ctx: typer.Context, incomplete: str) -> Items:
    """Those of the kind of the group that is called."""
    kind = ctx.obj.wire

    def tasks(client: Client) -> Items:
        for one in client.interactive(kind).listed():
            yield one["id"], one.get("description")

    return _completer(tasks)(ctx, incomplete)


AgentId = Annotated[
    str,
    typer.Argument(help="Agent id.", show_default=False, autocompletion=_completer(_agents)),
]
ExperimentId = Annotated[
    int, typer.Argument(help="Experiment id.", autocompletion=_completer(_experiments))
]
TrialId = Annotated[int, typer.Argument(help="Trial id.", autocompletion=_completer(_trials))]
CheckpointUuid = Annotated[
    str, typer.Argument(help="Checkpoint UUID.", autocompletion=_completer(_checkpoints))
]
TemplateName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the template.", autocompletion=complete_templates),
]
TemplateOption = Annotated[
    str | None, typer.Option(help="Apply this template.", autocompletion=complete_templates)
]
