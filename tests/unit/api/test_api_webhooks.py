"""Webhooks over REST, and the calls of a real receiver."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from master.allocations.machine import AllocationState
from master.core.webhooks.matching import Fired
from master.core.webhooks.types import LogFacts
from master.store import tables
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world
from tests.fakes.receiver import Receiver, receiver
from tests.fakes.transports_world import until

URL = "/api/v1/webhooks"
STATE = {"triggerType": "TRIGGER_TYPE_EXPERIMENT_STATE_CHANGE", "condition": {"state": "PAUSED"}}
CUSTOM = {"triggerType": "TRIGGER_TYPE_CUSTOM"}
SETTINGS = {"webhooks.allowed_targets": ["127.0.0.1"], "webhooks.signing_key": "key"}


def body(url: str = "https://example.org/x", **more: Any) -> dict[str, Any]:
    return {
        "name": "chat",
        "url": url,
        "webhookType": "WEBHOOK_TYPE_DEFAULT",
        "mode": "WEBHOOK_MODE_WORKSPACE",
        "triggers": [STATE],
        **more,
    }


async def create(world: ApiWorld, url: str, **more: Any) -> int:
    return int((await world.ok("POST", URL, body(url, **more)))["webhook"]["id"])


async def deliver(world: ApiWorld) -> None:
    await world.deliveries.step()
    await world.deliveries.settle()


async def events(world: ApiWorld) -> list[tables.WebhookEvent]:
    return await world.services.store.read(
        select(tables.WebhookEvent).order_by(tables.WebhookEvent.id)
    )


async def paused(world: ApiWorld, config: str = SINGLE) -> int:
    id_ = await world.create(config)
    await world.ok("POST", f"/api/v1/experiments/{id_}/pause")
    return id_


@pytest.fixture
async def world(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""
    async with api_world(tmp_path, db_url=db_url, settings=SETTINGS) as opened:
        await opened.login()
        yield opened


@pytest.fixture
async def chat() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made


async def test_the_life_of_a_webhook(world: ApiWorld, chat: Receiver) -> None:
    assert await world.ok("GET", URL) == {"webhooks": []}
    id_ = await create(world, chat.url)
    (found,) = (await world.ok("GET", URL))["webhooks"]
    trigger = found["triggers"][0]
    assert found == {
        **body(chat.url),
        "id": id_,
        "workspaceId": 0,
        "triggers": [{**STATE, "id": trigger["id"], "webhookId": id_}],
    }
    assert await world.ok("POST", f"{URL}/{id_}/test") == {"completed": True}
    assert json.loads(chat.received[0].body)["event_data"] == {"data": "test"}
    chat.answers = ["500 X"]
    said = await world.refused(400, "POST", f"{URL}/{id_}/test")
    assert said == f"webhook {id_}: its receiver answered 500"
    await world.ok("PATCH", f"{URL}/{id_}", {"url": chat.url + "2"})
    await paused(world)
    await deliver(world)
    assert chat.received[-1].path == "/hook2"
    await world.ok("DELETE", f"{URL}/{id_}")
    assert await world.ok("GET", URL) == {"webhooks": []}
    assert await events(world) == []
    await world.refused(404, "DELETE", f"{URL}/{id_}")


async def test_a_change_of_state_is_told_and_signed(world: ApiWorld, chat: Receiver) -> None:
    await create(world, chat.url)
    experiment = await paused(world)
    await deliver(world)
    (call,) = chat.received
    sent = json.loads(call.body)
    assert sent["event_type"] == "EXPERIMENT_STATE_CHANGE"
    assert sent["condition"] == {"state": "PAUSED"}
    told = sent["event_data"]["experiment"]
    assert (told["id"], told["state"], told["workspace"]) == (experiment, "PAUSED", "Uncategorized")
    at = call.headers["x-determined-ai-signature-timestamp"]
    expected = hmac.new(b"key", f"{at},".encode() + call.body, hashlib.sha256).hexdigest()
    assert call.headers["x-determined-ai-signature"] == expected
    (row,) = await events(world)
    assert row.delivered_at is not None
    (shown,) = (await world.ok("GET", "/api/v1/windlass/webhooks/1/deliveries"))["deliveries"]
    assert (shown["lastResult"], shown["nextTry"]) == ("HTTP status 200", None)


@pytest.mark.parametrize(
    ("webhooks", "calls"),
    [
        ("{exclude: true}", []),
        ("{webhook_name: [named]}", ["chat", "named"]),
        ("{webhook_id: [2]}", ["chat", "named"]),
        ("{}", ["chat"]),
    ],
)
async def test_the_configuration_says_who_is_called(
    world: ApiWorld, webhooks: str, calls: list[str]
) -> None:
    await create(world, "http://127.0.0.1:9")
    await create(world, "http://127.0.0.1:9", name="named", mode="WEBHOOK_MODE_SPECIFIC")
    await create(world, "http://127.0.0.1:9", workspaceId=(await _lab(world)))
    await paused(world, SINGLE + f"integrations: {{webhooks: {webhooks}}}\n")
    names = {1: "chat", 2: "named", 3: "of another workspace"}
    assert [names[row.webhook_id] for row in await events(world)] == calls


@pytest.mark.parametrize("unmanaged", [False, True])
async def test_an_experiment_names_webhooks_that_it_can_call(
    world: ApiWorld, unmanaged: bool
) -> None:
    await create(world, "http://127.0.0.1:9")
    specific = {"mode": "WEBHOOK_MODE_SPECIFIC", "workspaceId": await _lab(world)}
    await create(world, "http://127.0.0.1:9", name="of lab", **specific)
    for named, words in (
        ("{webhook_name: [nobody]}", "webhook_name[0]: there is no webhook 'nobody'"),
        ("{webhook_name: [of lab]}", "webhook_name[0]: there is no webhook 'of lab'"),
        ("{webhook_id: [1]}", "webhook_id[0]: webhook 1 has the mode WORKSPACE"),
    ):
        config = SINGLE + f"integrations: {{webhooks: {named}}}\n"
        new = {"config": config, "unmanaged": unmanaged}
        said = await world.refused(400, "POST", "/api/v1/experiments", new)
        assert f"<config>.integrations.webhooks.{words}" in said
    assert (await world.ok("GET", "/api/v1/experiments"))["experiments"] == []


async def _lab(world: ApiWorld) -> int:
    return int((await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"])


async def test_what_is_not_taken_is_tried_again_in_order(world: ApiWorld, chat: Receiver) -> None:
    await create(world, chat.url)
    first, second = await paused(world), await paused(world)
    chat.answers = ["503 X", "429 X\r\nRetry-After: 60", ""]
    await deliver(world)
    assert len(chat.received) == 1
    for wait_s, number in ((5, 1), (2, 2), (59, 2), (60, 3), (30, 5)):
        world.clock.advance(wait_s)
        await deliver(world)
        assert len(chat.received) == number, wait_s
    told = [json.loads(call.body)["event_data"]["experiment"]["id"] for call in chat.received]
    assert told == [first, first, first, first, second]
    ids = [json.loads(call.body)["event_id"] for call in chat.received]
    assert len(set(ids)) == 2


async def test_who_says_no_is_not_asked_again(world: ApiWorld, chat: Receiver) -> None:
    await create(world, chat.url)
    chat.answers = ["404 X", "302 X\r\nLocation: http://169.254.169.254/"]
    for result in ("HTTP status 404", "HTTP status 302: redirects are not followed"):
        await paused(world)
        await deliver(world)
        row = (await events(world))[-1]
        assert (row.last_result, row.next_try, row.delivered_at) == (result, None, None)


async def test_a_slow_receiver_delays_nobody(world: ApiWorld, chat: Receiver) -> None:
    async with receiver() as slow:
        slow.may_answer.clear()
        await create(world, slow.url)
        await create(world, chat.url)
        await paused(world)
        await world.deliveries.step()
        await slow.until(1)
        await chat.until(1)
        slow.may_answer.set()
        await world.deliveries.settle()
        assert all(row.delivered_at for row in await events(world))


async def test_an_alert_of_a_trial(world: ApiWorld, chat: Receiver) -> None:
    await create(world, chat.url, mode="WEBHOOK_MODE_SPECIFIC", triggers=[CUSTOM])
    named = await world.create(SINGLE + "integrations: {webhooks: {webhook_name: [chat]}}\n")
    other = await world.create()
    data = {"title": "loss", "description": "is NaN", "level": "LOG_LEVEL_ERROR"}
    for experiment in (named, other):
        said = {"experimentId": experiment, "data": data}
        await world.ok("POST", f"{URL}/custom", said)
    await deliver(world)
    (call,) = chat.received
    sent = json.loads(call.body)
    assert sent["event_data"]["custom_data"] == {**data, "level": "ERROR"}
    assert sent["event_data"]["experiment"]["id"] == named


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"triggers": []}, "triggers: at least one trigger required"),
        ({"url": "chat"}, "url: valid url required"),
        ({"url": "ftp://x/y"}, "url: valid url required"),
        ({"url": "https://me:secret@x/y"}, "url: must not hold a name or a password"),
        ({"url": "http://169.254.169.254/latest"}, "is not in webhooks.allowed_targets"),
        ({"name": ""}, "name: must be printable"),
        ({"webhookType": "WEBHOOK_TYPE_TEAMS"}, "webhookType"),
        ({"triggers": [CUSTOM]}, "custom triggers only work on webhooks with the mode"),
        (
            {"triggers": [{"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": "("}}]},
            "regex: ",
        ),
        (
            {"triggers": [{"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {}}]},
            'must be {"regex"',
        ),
        ({"triggers": [{**STATE, "condition": {"x": 1}}]}, 'must be {"state": STATE}'),
        (
            {"triggers": [{"triggerType": "TRIGGER_TYPE_METRIC_THRESHOLD_EXCEEDED"}]},
            "thresholds of metrics are not watched",
        ),
    ],
)
async def test_what_is_wrong_is_named(world: ApiWorld, changed: dict[str, Any], words: str) -> None:
    assert words in await world.refused(400, "POST", URL, {**body("http://127.0.0.1:9"), **changed})
    assert await world.ok("GET", URL) == {"webhooks": []}


async def test_who_may(world: ApiWorld) -> None:
    user = {"user": {"username": "other", "active": True}, "password": PASSWORD, "isHashed": False}
    await world.ok("POST", "/api/v1/users", user)
    mine, other = world.token, await world.login("other")
    world.token = mine
    id_ = await create(world, "http://127.0.0.1:9/secret")
    (seen,) = (await world.ok("GET", URL, token=other))["webhooks"]
    assert seen["url"] == "http://127.0.0.1:9/********"
    await world.refused(403, "POST", URL, body("http://127.0.0.1:9"), token=other)
    for method, path in (
        ("PATCH", f"{URL}/{id_}"),
        ("DELETE", f"{URL}/{id_}"),
        ("POST", f"{URL}/{id_}/test"),
        ("GET", f"/api/v1/windlass/webhooks/{id_}/deliveries"),
    ):
        await world.refused(403, method, path, {"url": "http://127.0.0.1:9"}, token=other)
    lab = await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}, token=other)
    own = body("http://127.0.0.1:9", workspaceId=lab["workspace"]["id"])
    await world.ok("POST", URL, own, token=other)
    said = await world.refused(404, "POST", URL, body("http://127.0.0.1:9", workspaceId=99))
    assert said == "workspace '99' not found"
    await world.ok("DELETE", f"/api/v1/workspaces/{lab['workspace']['id']}", token=other)
    assert len((await world.ok("GET", URL))["webhooks"]) == 1


def logs(regex: str) -> dict[str, Any]:
    return {"triggerType": "TRIGGER_TYPE_TASK_LOG", "condition": {"regex": regex}}


async def says(world: ApiWorld, run: AllocationState, *lines: str) -> None:
    """As an agent sends it; returns when it is stored."""
    container = run.containers[0].container
    agent = world.agents[container.agent_id]
    agent.log(container.container_id, *lines)
    await agent.until(lambda: not agent.unacked)


async def test_a_line_that_matches_is_told_once_for_each_task(
    world: ApiWorld, chat: Receiver
) -> None:
    await create(world, chat.url, triggers=[logs("CUDA.*error"), logs("nothing")])
    await world.add_agent()
    experiment = await world.create()
    run = await world.run_of(experiment)
    await says(world, run, "fine", '"log_policies": CUDA error', "CUDA: some error")
    await says(world, run, "CUDA: another error")
    await deliver(world)
    (call,) = chat.received
    sent = json.loads(call.body)
    assert sent["event_type"] == "TASK_LOG"
    assert sent["condition"] == {"regex": "CUDA.*error"}
    assert sent["event_data"]["task_log"] == {
        "task_id": run.task_id,
        "node_name": run.containers[0].container.node,
        "triggering_log": "CUDA: some error",
    }
    assert sent["event_data"]["experiment"]["trial_id"] == world.trial_id(experiment)


async def test_what_a_master_before_has_told_is_not_told_again(world: ApiWorld) -> None:
    await create(world, "http://127.0.0.1:9", triggers=[logs("error")])
    (webhook,) = world.services.webhook_registry.all()
    fired, line = Fired(webhook, webhook.triggers[0]), LogFacts(task_id="t", node="n", line="error")
    for _ in range(2):
        await world.services.webhook_registry.matched(fired, line, None)
    assert len(await events(world)) == 1


async def test_tasks_that_are_no_trials_are_listened_to(world: ApiWorld) -> None:
    await create(world, "http://127.0.0.1:9", triggers=[logs("error")])
    await world.add_agent()
    body = {"config": {"entrypoint": ["true"], "resources": {"slots": 0}}}
    task = (await world.ok("POST", "/api/v1/commands", body))["command"]["id"]
    live = world.services.tasks.live(task)
    assert live is not None
    await until(
        lambda: live.state.open_allocation is not None and live.state.open_allocation.containers
    )
    allocation = live.state.open_allocation
    assert allocation is not None
    await says(world, allocation, "an error")
    (row,) = await events(world)
    assert row.facts["task_log"]["task_id"] == task
    assert "experiment" not in row.facts
