"""Which webhooks are called, what with, and when again."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from master.core.webhooks.matching import naming_problems, state_changed, triggers_of
from master.core.webhooks.payloads import body_of
from master.core.webhooks.retries import GIVEN_UP_AFTER, Answer, Failure, outcome
from master.core.webhooks.signing import headers
from master.core.webhooks.types import (
    CustomFacts,
    Event,
    ExperimentFacts,
    LogFacts,
    Source,
    Trigger,
    TriggerType,
    Webhook,
    WebhookMode,
    WebhookType,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LAB, SHOP = 7, 8
ENDED = Trigger(id=1, type=TriggerType.STATE_CHANGE, state="COMPLETED")
ALERT = Trigger(id=2, type=TriggerType.CUSTOM)
EXPERIMENT = ExperimentFacts(
    id=3,
    state="COMPLETED",
    name="a <b> & `c`",
    duration_s=11_520,
    resource_pool="gpu",
    slots_per_trial=2,
    workspace="lab",
    project="p",
)


def webhook(
    id_: int,
    *,
    mode: WebhookMode = WebhookMode.WORKSPACE,
    workspace: int | None = None,
    triggers: Sequence[Trigger] = (ENDED,),
) -> Webhook:
    return Webhook(
        id=id_,
        name=f"w{id_}",
        url="https://example.org",
        type=WebhookType.DEFAULT,
        mode=mode,
        workspace_id=workspace,
        triggers=triggers,
    )


def event(**more: Any) -> Event:
    given: dict[str, Any] = {
        "id": "e",
        "type": TriggerType.STATE_CHANGE,
        "at": 100,
        "condition": ENDED.condition,
        "experiment": EXPERIMENT,
    }
    return Event(**{**given, **more})


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        (Source(workspace_id=LAB), [1, 2]),
        (Source(workspace_id=SHOP), [1]),
        (Source(workspace_id=LAB, ids=[3]), [1, 2, 3]),
        (Source(workspace_id=LAB, names=["w4"]), [1, 2, 4]),
        (Source(workspace_id=SHOP, ids=[3], names=["w4"]), [1, 3]),
        (Source(workspace_id=LAB, ids=[3], exclude=True), []),
    ],
)
def test_who_is_called(source: Source, ids: list[int]) -> None:
    specific = WebhookMode.SPECIFIC
    webhooks = [
        webhook(1),
        webhook(2, workspace=LAB),
        webhook(3, mode=specific),
        webhook(4, mode=specific, workspace=LAB),
    ]
    assert [one.webhook.id for one in state_changed(webhooks, source, "COMPLETED")] == ids
    assert list(state_changed(webhooks, source, "ERROR")) == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (Source(workspace_id=LAB), []),
        (Source(workspace_id=LAB, ids=[2, 3], names=["w3"]), []),
        (Source(workspace_id=SHOP, ids=[2], names=["w2"]), []),
        (Source(workspace_id=SHOP, ids=[2, 3]), ["webhook_id[1]: there is no webhook 3 for"]),
        (
            Source(workspace_id=SHOP, names=["w3"]),
            ["webhook_name[0]: there is no webhook 'w3' for"],
        ),
        (Source(workspace_id=LAB, ids=[-1]), ["webhook_id[0]: there is no webhook -1 for"]),
        (
            Source(workspace_id=LAB, ids=[1], names=["w1"], exclude=True),
            ["webhook_id[0]: webhook 1 has the", "webhook_name[0]: webhook 'w1' has the"],
        ),
    ],
)
def test_what_a_configuration_may_name(source: Source, wrong: list[str]) -> None:
    specific = WebhookMode.SPECIFIC
    webhooks = [
        webhook(1),
        webhook(2, mode=specific),
        webhook(3, mode=specific, workspace=LAB),
    ]
    found = naming_problems(webhooks, source)
    assert len(found) == len(wrong)
    for problem, words in zip(found, wrong, strict=True):
        assert problem.startswith(f"<config>.integrations.webhooks.{words}")


def test_each_trigger_that_fits_calls_once() -> None:
    both = webhook(1, triggers=[ENDED, ALERT])
    source = Source(workspace_id=LAB)
    assert [one.trigger for one in state_changed([both], source, "COMPLETED")] == [ENDED]
    assert [one.trigger for one in triggers_of([both], source, TriggerType.CUSTOM)] == [ALERT]


def test_our_payload() -> None:
    assert json.loads(body_of(event(), WebhookType.DEFAULT)) == {
        "event_id": "e",
        "event_type": "EXPERIMENT_STATE_CHANGE",
        "timestamp": 100,
        "condition": {"state": "COMPLETED"},
        "event_data": {
            "experiment": {
                "id": 3,
                "state": "COMPLETED",
                "name": "a <b> & `c`",
                "duration": 11_520,
                "resource_pool": "gpu",
                "slots_per_trial": 2,
                "workspace": "lab",
                "project": "p",
            }
        },
    }
    log = LogFacts(task_id="t", node="n", line="CUDA error")
    found = json.loads(
        body_of(
            event(type=TriggerType.TASK_LOG, experiment=None, log=log, condition={"regex": "CUDA"}),
            WebhookType.DEFAULT,
        )
    )
    assert found["event_data"] == {
        "task_log": {"task_id": "t", "node_name": "n", "triggering_log": "CUDA error"}
    }
    test = json.loads(body_of(event(experiment=None, is_test=True), WebhookType.DEFAULT))
    assert test["event_data"] == {"data": "test"}


def test_what_slack_gets() -> None:
    found = json.loads(body_of(event(), WebhookType.SLACK, "https://cluster/"))
    assert found["blocks"][0]["text"]["text"] == "Your experiment completed successfully"
    (attached,) = found["attachments"]
    assert attached["color"] == "#13B670"
    (section,) = attached["blocks"]
    assert section["text"]["text"] == (
        "<https://cluster/det/experiments/3/overview|a &lt;b&gt; &amp; ˋcˋ (#3)>"
    )
    assert [field["text"] for field in section["fields"]] == [
        "*Status*: Completed",
        "*Duration*: 3h 12min",
        "*Workspace*: lab",
        "*Project*: p",
    ]
    plain = json.loads(body_of(event(), WebhookType.SLACK))
    assert "http" not in json.dumps(plain)


def test_an_alert_in_slack() -> None:
    custom = CustomFacts(title="loss", description="is NaN <!channel>", level="ERROR")
    found = json.loads(
        body_of(event(type=TriggerType.CUSTOM, custom=custom, condition={}), WebhookType.SLACK)
    )
    fields = [field["text"] for field in found["blocks"][0]["fields"]]
    assert fields == [
        "*Level*: ERROR",
        "*Title*: loss",
        "*Description*: is NaN &lt;!channel&gt;",
    ]


def test_slack_gets_no_more_than_it_takes() -> None:
    custom = CustomFacts(title="<" * 1000, description="&" * 10_000, level="ERROR")
    log = LogFacts(task_id="c-1", node="n" * 300, line="&" * 2000)
    alert = event(type=TriggerType.CUSTOM, custom=custom, condition={})
    line = event(type=TriggerType.TASK_LOG, log=log, condition={"regex": "<" * 1000})
    blocks = [json.loads(body_of(one, WebhookType.SLACK))["blocks"][0] for one in (alert, line)]
    assert all(len(field["text"]) <= 2000 for field in blocks[0]["fields"])
    assert all(len(block["text"]["text"]) <= 3000 for block in blocks)
    assert "&amp;```" in blocks[1]["text"]["text"]


def test_a_matched_line_in_slack() -> None:
    log = LogFacts(task_id="c-1", node="node", line="``` <@U1> " + "x" * 5000)
    found = json.loads(
        body_of(
            event(type=TriggerType.TASK_LOG, experiment=None, log=log, condition={"regex": "<.*>"}),
            WebhookType.SLACK,
        )
    )
    text = found["blocks"][0]["text"]["text"]
    assert text.startswith("Task c-1, on node node, has written\n```ˋˋˋ &lt;@U1&gt; xxx")
    assert len(text) < 3000
    assert text.endswith("```&lt;.*&gt;```")


def test_the_signature() -> None:
    found = headers(b"{}", "key", 100)
    expected = hmac.new(b"key", b"100,{}", hashlib.sha256).hexdigest()
    assert found["X-Determined-AI-Signature"] == found["X-Windlass-Signature"] == expected
    assert found["X-Determined-AI-Signature-Timestamp"] == "100"


@pytest.mark.parametrize(
    ("attempt", "delivered", "again"),
    [
        (Answer(200), True, False),
        (Answer(204), True, False),
        (Answer(302), False, False),
        (Answer(404), False, False),
        (Answer(408), False, True),
        (Answer(429), False, True),
        (Answer(500), False, True),
        (Answer(503), False, True),
        (Failure("no answer within 10 s"), False, True),
        (Failure("is a link-local address", is_final=True), False, False),
    ],
)
def test_what_is_tried_again(attempt: Answer | Failure, delivered: bool, again: bool) -> None:
    found = outcome(attempt, attempts=1, since=NOW, now=NOW, jitter=0.0)
    assert found.delivered == delivered
    assert (found.next_try is not None) == again
    assert found.result


def test_waits_grow_to_an_hour_and_end() -> None:
    def wait(attempts: int, jitter: float = 0.0) -> float:
        found = outcome(Answer(500), attempts=attempts, since=NOW, now=NOW, jitter=jitter)
        assert found.next_try is not None
        return (found.next_try - NOW).total_seconds()

    assert [wait(one) for one in (1, 2, 3, 30)] == [5, 10, 20, 3600]
    assert wait(1, jitter=1.0) == 6
    late = NOW + GIVEN_UP_AFTER
    over = outcome(Answer(500), attempts=60, since=NOW, now=late, jitter=0.0)
    assert over.next_try is None
    assert over.result == "HTTP status 500; given up after 60 attempts"


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("120", 120),
        ("1", 5),
        ("Thu, 01 Jan 2026 00:10:00 GMT", 600),
        ("999999999", 24 * 3600),
        ("soon", 5),
        ("-5", 5),
        ("Thu, 01 Jan 2026 00:10:00 +99999999999999999", 5),
        ("", 5),
    ],
)
def test_a_receiver_says_when(header: str, wait_s: float) -> None:
    found = outcome(Answer(429, header), attempts=1, since=NOW, now=NOW, jitter=0.0)
    assert found.next_try == NOW + timedelta(seconds=wait_s)
