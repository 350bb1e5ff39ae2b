"""Runs in the published client's Python: says what its stream says, a line each."""

from __future__ import annotations

import json
import sys

from determined.common import api
from determined.common.streams import _client

master, token, workspace = sys.argv[1:]
session = api.Session(master, "admin", token, None)
place = int(workspace)
stream = _client.Stream(_client.LomondStreamWebSocket(session))
stream.subscribe(
    sync_id="mine",
    projects=_client.ProjectSpec(workspace_id=place),
    models=_client.ModelSpec(workspace_id=place),
    model_versions=_client.ModelVersionSpec(model_id=[1]),
)
for event in stream:
    print(json.dumps([type(event).__name__, event.to_json()]), flush=True)
