"""`windlass fleet`: its commands, in the order of --help."""

from __future__ import annotations

from windlass.cli.fleet.bake import bake
from windlass.cli.fleet.batch_jobs import batch_jobs
from windlass.cli.fleet.costs import costs
from windlass.cli.fleet.decisions import decisions
from windlass.cli.fleet.machines import describe, list_instances
from windlass.cli.fleet.offers import offers, retry
from windlass.cli.fleet.plan import plan
from windlass.cli.groups import command_group

app = command_group()
app.command("list")(list_instances)
for command in (plan, decisions, bake, describe, offers, retry, batch_jobs, costs):
    app.command()(command)
