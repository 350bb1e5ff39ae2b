"""What an agent sends, before it is a message: too long, too deep or not understood ends the connection."""

from __future__ import annotations

import re

from pydantic import BaseModel, ValidationError

from agent_bootstrap.bounds import Name, one_line
from agent_bootstrap.protocol import FROM_AGENT, PROTOCOL_VERSION, BadMessage, FromAgent
from windlass.base.packages import VERSION

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
        if kind == "hello" and (other := _other_protocol(frame)):
            raise BadMessage(other) from None
        raise BadMessage(f"sent what cannot be read: {_first(error)}") from None
    if len(frame) > LARGE_BYTES.get(message.type, SMALL_BYTES):
        raise BadMessage(f"sent {len(frame)} bytes as '{message.type}'")
    return message


def _first(error: ValidationError) -> str:
    item = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in item["loc"])
    said = item["msg"].removeprefix("Value error, ")
    return one_line(f"{place}: {said}" if place else said)[:_MAX_REASON_CHARS]


class _Version(BaseModel):
    """What every release says in its Hello."""

    protocol: int
    version: Name = ""


def _other_protocol(frame: str | bytes) -> str:
    """That a Hello is of another protocol: no wonder it is not understood. Empty if it is not."""
    try:
        said = _Version.model_validate_json(frame)
    except ValidationError:
        return ""
    if said.protocol == PROTOCOL_VERSION:
        return ""
    return protocol_problem(said.protocol, said.version)


def protocol_problem(protocol: int, version: str) -> str:
    """Of an agent that speaks another protocol than this master."""
    whose = "agent" if protocol < PROTOCOL_VERSION else "master"
    return (
        f"({version or 'of an unknown version'}) speaks protocol {protocol}, this master ({VERSION}) "
        f"protocol {PROTOCOL_VERSION}: update Windlass on the {whose}"
    )
