"""What a configuration hides is for its owner and administrators: canaries of each kind, looked for in every reply."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from master.core.expconf import ClusterDefaults
from master.store.tables import Command, Experiment, StorageBackend
from tests.fakes.populated_world import Populated, populated_world, routes, running_command

OWN = "own-canary"
AUTH = base64.b64encode(b"me:own").decode()
CLUSTER = "cluster-canary"
CONFIG = f"""
# a comment may say it, too: {OWN}-comment
name: secretive
entrypoint: python3 train.py
searcher: {{name: single, metric: loss, smaller_is_better: true}}
resources: {{slots_per_trial: 1}}
data: {{url: "https://me:{OWN}-url@data.example/x", sas: "https://a.example/c?sv=1&sig={OWN}-sas"}}
checkpoint_storage:
  type: s3
  bucket: mine
  endpoint_url: "http://me:{OWN}-endpoint@s3.example"
  access_key: {OWN}-access
environment:
  environment_variables: {{cpu: ["TOKEN={OWN}-cpu", "EMPTY"], cuda: ["TOKEN={OWN}-cuda"]}}
  registry_auth:
    username: me
    password: {OWN}-password
    auth: {AUTH}
    identitytoken: {OWN}-identity
    registrytoken: {OWN}-registry
  pod_spec: {{spec: {{containers: [{{name: c, env: [{{name: P, value: {OWN}-pod}}]}}]}}}}
integrations:
  pachyderm:
    pachd: {{host: h, port: 1}}
    proxy: {{scheme: http, host: h, port: 1}}
    dataset: {{project: p, repo: r, commit: c, branch: b, token: {OWN}-pachyderm}}
"""
COMMAND: dict[str, Any] = {
    "entrypoint": ["sleep", "60"],
    "environment": {
        "environment_variables": [f"TOKEN={OWN}-command"],
        "registry_auth": {"username": "me", "password": f"{OWN}-command-password"},
    },
}
DEFAULTS = ClusterDefaults(
    checkpoint_storage={
        "type": "s3",
        "bucket": "shared",
        "access_key": f"{CLUSTER}-access",
        "secret_key": f"{CLUSTER}-secret",
    },
    task_container_defaults={
        "environment_variables": [f"SITE_TOKEN={CLUSTER}-variable"],
        "registry_auth": {"username": "site", "password": f"{CLUSTER}-password"},
    },
)


@pytest.fixture
async def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Populated]:
    monkeypatch.setattr(
        "master.experiments.submission.storage_checks._attempt", lambda storage: None
    )
    async with populated_world(
        tmp_path, config=CONFIG, command=COMMAND, defaults=DEFAULTS
    ) as there:
        yield there


async def answers(there: Populated, token: str) -> dict[str, str]:
    """Every GET of the API, by its path."""
    found = {}
    for _, route in routes("GET"):
        if "signals/preemption" in route.path:
            url = there.url(route.path) + "?timeoutSeconds=0"
        else:
            url = there.url(route.path)
        for query in ("", f"?trialIds={there.trial}&group=validation"):
            if query and "metrics" not in route.path:
                continue
            response = await there.world.call("GET", url + query, token=token)
            assert response.status_code < 500, (url, response.text)
            found[url + query] = response.text
    command = f"/api/v1/tasks/{there.command}"
    whole = f"/api/v1/windlass/compare?experimentIds={there.experiment}&all=true&limit=2000"
    other = f"/api/v1/windlass/experiments/{there.experiment}/difference?otherId={there.unmanaged}"
    for url in (whole, other, command, f"{command}/logs", f"{command}/context_directory"):
        found[url] = (await there.world.call("GET", url, token=token)).text
    return found


def holding(found: dict[str, str], canary: str) -> dict[str, list[str]]:
    """By path, what of a canary an answer holds."""
    return {
        url: sorted({word.split('"')[0] for word in body.split(canary)[1:]})
        for url, body in found.items()
        if canary in body
    }


async def test_no_reply_shows_another_user_a_secret(there: Populated) -> None:
    found = await answers(there, there.other)
    assert holding(found, OWN) == holding(found, AUTH) == {}
    assert holding(found, CLUSTER) == {}
    shown = json.loads(found[f"/api/v1/experiments/{there.experiment}"])["experiment"]
    environment = shown["config"]["environment"]
    assert environment["environment_variables"]["cpu"][-2:] == ["TOKEN=********", "EMPTY"]
    assert environment["registry_auth"]["password"] == "********"
    assert environment["registry_auth"]["username"] == "me"
    assert shown["config"]["checkpoint_storage"]["access_key"] == "********"
    assert shown["config"]["data"]["url"] == "https://me:********@data.example/x"
    assert json.loads(shown["originalConfig"]) == shown["config"]


async def test_a_task_of_another_user_is_another_user(there: Populated) -> None:
    world = there.world
    await world.add_agent("node-2")
    theirs = await running_command(world, there.other)
    found = await answers(there, world.task_token(theirs))
    assert holding(found, OWN) == holding(found, AUTH) == {}


@pytest.mark.parametrize("who", ["owner", "admin", "task"])
async def test_owner_and_administrator_see_all_that_was_submitted(
    there: Populated, who: str
) -> None:
    token = there.world.task_token(there.run) if who == "task" else getattr(there, who)
    found = await answers(there, token)
    experiment = found[f"/api/v1/experiments/{there.experiment}"]
    for kind in ("comment", "url", "sas", "access", "cpu", "cuda", "password", "pachyderm"):
        assert f"{OWN}-{kind}" in experiment, kind
    assert AUTH in experiment
    assert f"{OWN}-command" in found[f"/api/v1/commands/{there.command}"]


async def test_what_is_the_masters_is_a_reference_even_for_the_owner(there: Populated) -> None:
    """But where a client opens the storage with it."""
    found = await answers(there, there.owner)
    opens = holding(found, CLUSTER)
    assert set(opens) == {
        f"/api/v1/checkpoints/{there.checkpoint}",
        f"/api/v1/experiments/{there.experiment}/checkpoints",
        f"/api/v1/trials/{there.trial}/checkpoints",
        f"/api/v1/models/{there.ids()['model_name']}/versions",
        f"/api/v1/models/{there.ids()['model_name']}/versions/1",
    }
    assert {kind for kinds in opens.values() for kind in kinds} == {"-secret"}
    config = json.loads(found[f"/api/v1/experiments/{there.experiment}"])["config"]
    reference = "${master.yaml:checkpoint_storage.secret_key}"
    assert config["checkpoint_storage"]["secret_key"] == reference
    command = json.loads(found[f"/api/v1/commands/{there.command}"])["config"]
    assert command["environment"]["environment_variables"]["cpu"] == [
        "SITE_TOKEN=${master.yaml:environment_variables.cpu.SITE_TOKEN}",
        f"TOKEN={OWN}-command",
    ]


async def test_the_store_holds_no_secret_of_the_master(there: Populated) -> None:
    """Nor when a task tells which storage it was given."""
    given = {"type": "s3", "bucket": "shared", "secret_key": f"{CLUSTER}-secret"}
    await there.world.ok(
        "POST",
        "/api/v1/runs/start",
        {"runId": there.trial, "checkpointStorage": given},
        token=there.world.task_token(there.run),
    )
    store = there.world.services.store
    tables = [await store.read(select(model)) for model in (Experiment, StorageBackend, Command)]
    dumped = "".join(row.model_dump_json() for rows in tables for row in rows)
    assert "SITE_TOKEN" in dumped
    assert "shared" in dumped
    assert CLUSTER not in dumped


async def test_a_task_is_given_what_references_stand_for(there: Populated) -> None:
    containers = there.world.agents["node-1"].containers
    spec = next(c.spec for c in containers.values() if c.spec.task_id == there.run.task_id)
    config = json.loads(spec.environment["DET_EXPERIMENT_CONFIG"])
    assert config["checkpoint_storage"]["secret_key"] == f"{CLUSTER}-secret"
    assert config["checkpoint_storage"]["access_key"] == f"{OWN}-access"
    assert spec.environment["SITE_TOKEN"] == f"{CLUSTER}-variable"
    assert spec.environment["TOKEN"] == f"{OWN}-cpu"


async def test_a_fork_does_not_run_with_the_mask(there: Populated) -> None:
    shown = await there.world.ok("GET", f"/api/v1/experiments/{there.experiment}")
    message = await there.world.refused(
        400, "POST", "/api/v1/experiments", {"config": shown["experiment"]["originalConfig"]}
    )
    assert "a secret is ********" in message
    command = await there.world.ok("GET", f"/api/v1/commands/{there.command}")
    assert "TOKEN=********" in str(command["config"])
    message = await there.world.refused(
        400, "POST", "/api/v1/commands", {"config": command["config"]}
    )
    assert "a secret is ********" in message


async def test_its_owner_forks_it_with_references(there: Populated) -> None:
    world = there.world
    shown = await world.ok("GET", f"/api/v1/experiments/{there.experiment}", token=there.owner)
    fork = await world.ok(
        "POST",
        "/api/v1/experiments",
        {"config": json.dumps(shown["experiment"]["config"]), "activate": True},
        token=there.owner,
    )
    run = await world.run_of(fork["experiment"]["id"])
    containers = world.agents["node-1"].containers
    spec = next(c.spec for c in containers.values() if c.spec.task_id == run.task_id)
    assert spec.environment["SITE_TOKEN"] == f"{CLUSTER}-variable"
