"""What a page says on its socket."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from master.api.http.json_text import loads
from master.live.topics import MAX_TEXT
from windlass.base.errors import InvalidArgument

MAX_MESSAGE = 4_096
"""Characters."""
Number = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Subscribe(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: Number
    """By which news of it come; the page chooses it."""
    topic: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class LiveMessage(BaseModel):
    """One of these."""

    model_config = ConfigDict(extra="forbid", strict=True)

    subscribe: Subscribe | None = None
    unsubscribe: Number | None = None
    visible: bool | None = None
    alive: bool | None = None
    """The answer to a beat."""

    @model_validator(mode="after")
    def _says_something(self) -> LiveMessage:
        if not self.model_fields_set:
            raise ValueError("must have one of subscribe, unsubscribe, visible and alive")
        return self


def parse_message(text: str) -> LiveMessage:
    """Raises InvalidArgument, which names the field."""
    if len(text) > MAX_MESSAGE:
        raise InvalidArgument(f"message: is longer than {MAX_MESSAGE} characters")
    try:
        return LiveMessage.model_validate(loads(text.encode()))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "message"
        raise InvalidArgument(f"{path}: {first['msg']}") from None
    except ValueError:
        raise InvalidArgument("message: is not valid JSON") from None
