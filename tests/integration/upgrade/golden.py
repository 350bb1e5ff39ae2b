"""Data folders of earlier releases, each with work of every kind: SQL text in tests/golden/<release>.

They were dumped from real clusters of that release, killed with SIGKILL in the middle of their work.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import yaml

from master.app import Master, MasterOptions
from master.auth.join_tokens import load_or_create
from master.config import load

GOLDEN = Path(__file__).parents[2] / "golden"
RELEASES = sorted(path.name for path in GOLDEN.iterdir())
CONFIG = {
    "resource_pools": [
        {"pool_name": "default", "scheduler": {"type": "priority"}},
        {"pool_name": "compute", "max_instances": 2, "provider": {"type": "embedded"}},
    ]
}


def data_folder(release: str, at: Path) -> Path:
    """A copy of the data folder of that release."""
    at.mkdir(mode=0o700)
    load_or_create(at / "secret")
    for dump, name in (("state.sql", "windlass.db"), ("logs.sql", "logs.db")):
        with closing(sqlite3.connect(at / name)) as database:
            database.executescript((GOLDEN / release / dump).read_text())
    return at


def edit(folder: Path, table: str, column: str, change: Callable[[Any], Any]) -> None:
    """Change each document of a column, as it is stored."""
    with closing(sqlite3.connect(folder / "windlass.db")) as database:
        for row_id, text in database.execute(f"SELECT rowid, {column} FROM {table}").fetchall():  # noqa: S608
            changed = json.dumps(change(json.loads(text)))
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (changed, row_id))  # noqa: S608
        database.commit()


def stored(folder: Path, table: str, column: str) -> list[Any]:
    """The documents of a column, as they are stored."""
    with closing(sqlite3.connect(folder / "windlass.db")) as database:
        found = database.execute(f"SELECT {column} FROM {table} ORDER BY rowid")  # noqa: S608
        return [json.loads(text) for (text,) in found]


def keeps(new: Any, old: Any) -> bool:
    """Whether everything of `old` is still in `new`, which may have more fields."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(k in new and keeps(new[k], v) for k, v in old.items())
    if isinstance(old, list):
        return len(new) == len(old) and all(map(keeps, new, old))
    return bool(new == old)


@asynccontextmanager
async def restarted(folder: Path) -> AsyncIterator[Master]:
    """This release's master on the folder, once everything is restored."""
    file = folder.parent / "master.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    options = MasterOptions(
        config=load(file), data_dir=folder, master_url="http://127.0.0.1:1", provision_every_s=3600
    )
    master = await Master.open(options)
    running = asyncio.create_task(master.run())
    ready = asyncio.create_task(master.ready())
    try:
        await asyncio.wait({ready, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        yield master
    finally:
        for task in (ready, running):
            task.cancel()
        await asyncio.gather(ready, running, return_exceptions=True)
