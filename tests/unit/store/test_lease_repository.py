"""Records of batch jobs, as they are kept."""

from __future__ import annotations

from master.core.reasons import ReasonKind
from master.store.repositories.leases import lease_document, lease_from_document
from provisioner.batch.base import EndCause, JobPhase
from provisioner.batch.job_files import JobShape
from rm_backends.batch.leases import Lease, LeaseState


def test_a_record_is_read_as_it_was_written() -> None:
    shape = JobShape(queue="gpu", nodes=2, slots_per_node=4, gpus_per_node=4, arguments=("-A x",))
    lease = Lease(
        tag="wl-a-b",
        pool="p",
        allocation_id="1.a.1",
        shape=shape,
        created_at=1.5,
        state=LeaseState.ENDING,
        phase=JobPhase.RUNNING,
        kind=ReasonKind.QUOTA,
        job_id="7",
        node_names=("n1", "n2"),
        account="team",
        cause=EndCause.TIMEOUT,
    )
    assert lease_from_document(lease_document(lease)) == lease
