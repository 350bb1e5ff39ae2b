"""The Core API: what training code uses to live on a cluster.

Same shapes as `determined.core`, so `from windlass import core` is the whole migration. Standard library only: no
torch, no TensorFlow, nothing that makes a task start slowly.
"""

from windlass.core._checkpoint import CheckpointContext, DownloadMode
from windlass.core._context import Context, init
from windlass.core._distributed import DistributedContext, DummyDistributedContext
from windlass.core._info import (
    ClusterInfo,
    RendezvousInfo,
    ResourcesInfo,
    TrialInfo,
    get_cluster_info,
)
from windlass.core._preempt import DummyPreemptContext, PreemptContext, PreemptMode
from windlass.core._searcher import SearcherContext, SearcherMode, SearcherOperation, Unit
from windlass.core._tensorboard import TensorboardMode
from windlass.core._train import DummyTrainContext, EarlyExitReason, InvalidHP, TrainContext
from windlass.storage import CheckpointNotFound

__all__ = [
    "CheckpointContext",
    "CheckpointNotFound",
    "ClusterInfo",
    "Context",
    "DistributedContext",
    "DownloadMode",
    "DummyDistributedContext",
    "DummyPreemptContext",
    "DummyTrainContext",
    "EarlyExitReason",
    "InvalidHP",
    "PreemptContext",
    "PreemptMode",
    "RendezvousInfo",
    "ResourcesInfo",
    "SearcherContext",
    "SearcherMode",
    "SearcherOperation",
    "TensorboardMode",
    "TrainContext",
    "TrialInfo",
    "Unit",
    "get_cluster_info",
    "init",
]
