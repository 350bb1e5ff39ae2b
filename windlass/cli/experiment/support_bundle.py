"""An archive of what is known of a trial: its rows, its log, and for administrators the master's."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from windlass.base.errors import PermissionDenied
from windlass.cli.output.text import notice
from windlass.sdk.client import Client
from windlass.sdk.operation import Operation


def write_bundle(client: Client, trial_id: int, folder: Path) -> Path:
    """Returns where it is."""
    name = f"trial-{trial_id}-support-bundle-{time.strftime('%Y%m%dT%H%M%S')}"
    files = dict(_files(client, trial_id))
    path = folder / f"{name}.tar.gz"
    with tarfile.open(path, "x:gz") as archive:
        for file, content in files.items():
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime = len(content), int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return path


def _files(client: Client, trial_id: int) -> Iterator[tuple[str, bytes]]:
    operation = Operation(client.session)
    trial = client.trial(trial_id)
    yield "trial.json", _json(trial)
    yield "experiment.json", _json(client.experiment(trial["experimentId"]))
    yield "workloads.json", _json(client.workloads(trial_id, batch_metrics=False))
    yield "master.json", _json(client.info())
    yield "trial_logs.txt", "".join(line["message"] for line in client.logs(trial_id)).encode()
    try:
        yield "master_config.json", _json(operation.master_config())
        entries = list(operation.master_logs())
    except PermissionDenied:
        notice("Without the master's log and configuration: only administrators may read those.")
        return
    lines = (f"{e['timestamp']} [{e['level']}]: {e['message']}" for e in entries)
    yield "master_logs.txt", "\n".join(lines).encode()


def _json(document: object) -> bytes:
    return json.dumps(document, indent=2).encode()
