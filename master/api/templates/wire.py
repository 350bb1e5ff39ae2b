"""Templates on the wire."""

from __future__ import annotations

from master.api.templates.replies import Template
from master.api.values import finite, time
from master.core.expconf.secrets import masked
from master.core.visibility import Visibility
from master.templates.queries import TemplateRow


def template(row: TemplateRow, visible: Visibility) -> Template:
    stored = row.template
    shows = visible.shows_secrets_of(stored.owner_id)
    return {
        "name": stored.name,
        "config": finite(stored.config if shows else masked(stored.config)),
        "workspaceId": stored.workspace_id,
        "userId": stored.owner_id,
        "username": row.username,
        "modifiedAt": time(stored.modified_at),
    }
