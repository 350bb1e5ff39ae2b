"""The bodies of calls: our JSON, and Slack's blocks."""

from __future__ import annotations

import json
from typing import Any

from master.core.webhooks.types import Event, ExperimentFacts, LogFacts, WebhookType

_STATUS = {
    "COMPLETED": ("completed successfully", "#13B670"),
    "ERROR": ("stopped with errors", "#DD5040"),
}
_OTHER_COLOUR = "#009bde"
_MARKS = {"DEBUG": "", "INFO": "ℹ️ ", "WARNING": "⚠️ ", "ERROR": "❌ ", "CRITICAL": "❌ "}
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "ˋ"}
_TEST = "test"
MAX_FIELD, MAX_LINE, MAX_REGEX, MAX_NAME = 1_800, 1_800, 600, 200
"""Characters of what users wrote, as Slack counts them: it refuses more than 2,000 in a field, or 3,000 in a block."""


def body_of(event: Event, type_: WebhookType, base_url: str = "") -> bytes:
    """`base_url`: where links lead; empty: there are none."""
    content = _slack(event, base_url.rstrip("/")) if type_ is WebhookType.SLACK else _own(event)
    return json.dumps(content, ensure_ascii=False).encode()


def _own(event: Event) -> dict[str, Any]:
    parts = {
        "experiment": event.experiment,
        "task_log": event.log,
        "custom_data": event.custom,
    }
    data: dict[str, Any] = {key: one.to_json() for key, one in parts.items() if one is not None}
    if event.is_test:
        data["data"] = _TEST
    return {
        "event_id": event.id,
        "event_type": event.type.value,
        "timestamp": event.at,
        "condition": dict(event.condition),
        "event_data": data,
    }


def _slack(event: Event, base: str) -> dict[str, Any]:
    if event.is_test:
        return {"blocks": [_plain(_TEST)]}
    if event.log is not None:
        return {"blocks": [_marked(_log_text(event, event.log, base))]}
    experiment = event.experiment
    if experiment is None:
        return {"blocks": [_plain(event.type.value)]}
    status, colour = _STATUS.get(
        experiment.state, (f"has the status {experiment.state}", _OTHER_COLOUR)
    )
    blocks = [_plain(f"Your experiment {status}")]
    if (custom := event.custom) is not None:
        mark = _MARKS.get(custom.level, "")
        blocks = [
            {
                **_plain(f"{mark}{custom.title or 'An experiment says something'}"),
                "fields": [
                    _field("Level", custom.level),
                    _field("Title", custom.title),
                    _field("Description", custom.description),
                ],
            }
        ]
    return {
        "blocks": blocks,
        "attachments": [{"color": colour, "blocks": [_section(experiment, base)]}],
    }


def _section(one: ExperimentFacts, base: str) -> dict[str, Any]:
    fields = [("Status", one.state.capitalize())]
    if one.duration_s:
        fields.append(("Duration", _duration(one.duration_s)))
    fields += [
        (name, value)
        for name, value in (("Workspace", one.workspace), ("Project", one.project))
        if value
    ]
    if one.trial_id is not None:
        fields.append(("Trial ID", str(one.trial_id)))
    return {
        **_marked(_experiment_link(one, base)),
        "fields": [_field(name, value) for name, value in fields],
    }


def _log_text(event: Event, log: LogFacts, base: str) -> str:
    if event.experiment is not None:
        of = f"Experiment {_experiment_link(event.experiment, base)}, trial {event.experiment.trial_id}"
    else:
        of = f"Task {escaped(log.task_id, MAX_NAME)}"
    regex = event.condition.get("regex", "")
    return (
        f"{of}, on node {escaped(log.node, MAX_NAME)}, has written\n{_code(log.line, MAX_LINE)}\n"
        f"which matches\n{_code(regex, MAX_REGEX)}"
    )


def _experiment_link(one: ExperimentFacts, base: str) -> str:
    text = f"{escaped(one.name, MAX_NAME)} (#{one.id})"
    return f"<{base}/det/experiments/{one.id}/overview|{text}>" if base else text


def _plain(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "plain_text", "text": text or " "}}


def _marked(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _field(name: str, value: str) -> dict[str, str]:
    return {"type": "mrkdwn", "text": f"*{name}*: {escaped(value, MAX_FIELD)}"}


def escaped(text: str, most: int) -> str:
    """What users wrote, so that Slack shows it and makes no links, mentions or code of it; no more than `most`."""
    found, left = [], most
    for character in text[:most]:
        shown = _ESCAPES.get(character, character)
        left -= len(shown)
        if left < 0:
            break
        found.append(shown)
    return "".join(found)


def _code(text: str, most: int) -> str:
    return f"```{escaped(text, most)}```"


def _duration(seconds: int) -> str:
    """`3h 12min`."""
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}h {minutes}min" if hours else f"{minutes}min"
