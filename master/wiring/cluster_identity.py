"""Who this cluster is."""

from __future__ import annotations

from sqlalchemy import select

from master.api.services import MasterInfo
from master.config import MasterConfig
from master.recovery.identity import CLUSTER_ID, SECRET_MARK
from master.recovery.opening import OpenedFolder
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.workspaces.first import first_rows
from windlass import DETERMINED_VERSION, __version__
from windlass.base.ids import Ids


async def cluster_info(
    store: Store, folder: OpenedFolder, ids: Ids, config: MasterConfig
) -> MasterInfo:
    """Noted at the first start, together with what every project belongs to."""
    found = {row.key: row.value for row in await store.read(select(tables.Meta))}
    uow = UnitOfWork()
    if CLUSTER_ID not in found:
        uow.insert(tables.Meta, {"key": CLUSTER_ID, "value": folder.cluster_id})
        uow.extend(first_rows(store))
    if found.get(SECRET_MARK) != folder.secret_mark:
        uow.upsert(tables.Meta, {"key": SECRET_MARK, "value": folder.secret_mark})
    await store.commit(uow)
    folder.settle()
    return MasterInfo(
        master_id=ids.uuid(),
        cluster_id=folder.cluster_id,
        cluster_name=config.cluster_name,
        version=DETERMINED_VERSION,
        windlass_version=__version__,
    )
