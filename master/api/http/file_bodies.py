"""Large bodies: files as clients send them, and parsing that happens in a thread."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

from pydantic import ValidationError

from master.api.http.json_text import check_values
from master.api.request_models import Body, Int32, Int64, Text
from master.store.contexts import ContextFile
from windlass.base.errors import InvalidArgument

_DIRECTORY = ord("5")
"""The type of a directory in tar archives; `0` is a file."""
_LATEST_MTIME = 2**33
"""Seconds since the epoch, the year 2242: where files are unpacked, much later ones cannot be set."""
T = TypeVar("T", bound=Body)


class FileBody(Body):
    """One file or directory."""

    path: Text
    type: Int32 = ord("0")
    content: str = ""
    mtime: Int64 = 0
    mode: Int32 = 0o644

    def context_file(self, field: str) -> ContextFile:
        """Raises InvalidArgument that names `field`, the list that it is in."""
        try:
            content = base64.b64decode(self.content, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArgument(f"{field}: {self.path} is not valid base64") from None
        return ContextFile(
            path=self.path,
            content=content,
            is_directory=self.type == _DIRECTORY,
            mode=self.mode & 0o7777,
            mtime=min(max(0, self.mtime), _LATEST_MTIME),
        )


def parse_body(model: type[T], body: bytes) -> T:
    """Raises InvalidArgument that names the field."""
    check_values(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidArgument(f"{path or 'body'}: {first['msg']}") from None
