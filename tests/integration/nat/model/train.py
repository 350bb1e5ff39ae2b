"""Two containers, each on a machine of its own, that talk to each other as training frameworks do."""

from windlass import core

info = core.get_cluster_info()
assert info is not None
rank = info.container_rank
ranks = core.DistributedContext(
    rank=rank,
    size=2,
    local_rank=0,
    local_size=1,
    cross_rank=rank,
    cross_size=2,
    chief_ip=info.container_addrs[0],
)
with core.init(distributed=ranks) as context:
    said = ranks.allgather(f"rank {rank} of {info.container_addrs}")
    print(said, flush=True)
    if rank == 0:
        context.train.report_training_metrics(1, {"loss": 0.5})
