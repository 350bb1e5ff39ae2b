"""What an agent sends, before it is a message: too long, too deep or not understood ends the connection."""

from __future__ import annotations

import re

from pydantic import ValidationError

from agent_bootstrap.bounds import one_line
from agent_bootstrap.protocol import FROM_AGENT, BadMessage, FromAgent

SMALL_BYTES = 64 * 1024
"""A heartbeat, a report, the news of an end."""
LARGE_BYTES = {
    "hello": 2 * 1024 * 1024,  # every slot and every container
    "log_batch": 2 * 1024 * 1024,  # 256 KiB of output, each byte escaped
}
"""Messages that may be longer. They begin with their type, so that nothing has to be parsed to know."""
MAX_FROM_AGENT_BYTES = max(LARGE_BYTES.values())

_TYPE = re.compile(r'\s{0,8}\{\s{0,8}"type"\s{0,8}:\s{0,8}"([a-z_]{1,32})"')
_MAX_REASON_CHARS = 300


def read_frame(frame: str | bytes) -> FromAgent:
    """Raises BadMessage, which holds nothing of the frame but names."""
    head = frame[:100]
    begins = _TYPE.match(head if isinstance(head, str) else head.decode(errors="replace"))
    kind = begins[1] if begins else ""
    most = LARGE_BYTES.get(kind, SMALL_BYTES)
    if len(frame) > most:
        raise BadMessage(f"sent {len(frame)} bytes as '{kind}', which has {most} at the most")
    try:
        message = FROM_AGENT.validate_json(frame)
    except ValidationError as error:
        raise BadMessage(f"sent what cannot be read: {_first(error)}") from None
    if len(frame) > LARGE_BYTES.get(message.type, SMALL_BYTES):
        raise BadMessage(f"sent {len(frame)} bytes as '{message.type}'")
    return message


def _first(error: ValidationError) -> str:
    item = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in item["loc"])
    said = item["msg"].removeprefix("Value error, ")
    return one_line(f"{place}: {said}" if place else said)[:_MAX_REASON_CHARS]
