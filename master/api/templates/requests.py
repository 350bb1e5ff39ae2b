"""What templates are made of and asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from master.api.request_models import Body, FreeObject, Int32, Paging, Text, Word

UNCATEGORIZED = 1


class PostTemplate(Body):
    """Named by the path."""

    name: Text = ""
    config: FreeObject
    workspace_id: Annotated[Int32, Field(ge=0)] = 0
    """0: the first one."""


class RenameTemplate(Body):
    old_name: Text
    new_name: Text


class ListTemplates(Paging):
    name: str = ""
    """A part of it."""
    workspace_ids: tuple[Int32, ...] = ()
    sort_by: Annotated[str, Word("SORT_BY_", ("NAME",))] = ""
