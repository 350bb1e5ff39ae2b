"""Training data on several ranks: which samples are whose, where to go on after an interruption, and a read cache.

    sampler = data.ShardedSampler(len(dataset), core_context.distributed, seed=7)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    for batch in sampler.track(loader, batch_size=32): ...

Standard library only: a sampler is all that a torch DataLoader needs to be given, and plain Python can iterate over it.
"""

from windlass.core.data._cache import ReadCache
from windlass.core.data._order import Shuffled
from windlass.core.data._shards import ShardedSampler, ShardedStream

__all__ = ["ReadCache", "ShardedSampler", "ShardedStream", "Shuffled"]
