"""The Core API: what training code uses to live on a cluster.

Same shapes as `determined.core`, so `from windlass import core` is the whole migration. Standard library only: no
torch, no TensorFlow, nothing that makes a task start slowly. Each name is imported when it is first asked for: the
launcher, which runs before every task, needs few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from windlass.core._profiler import DummyProfilerContext, ProfilerContext
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
    "DummyProfilerContext",
    "DummyTrainContext",
    "EarlyExitReason",
    "InvalidHP",
    "PreemptContext",
    "PreemptMode",
    "ProfilerContext",
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

_MODULES = {
    "windlass.core._checkpoint": ("CheckpointContext", "DownloadMode"),
    "windlass.core._context": ("Context", "init"),
    "windlass.core._distributed": ("DistributedContext", "DummyDistributedContext"),
    "windlass.core._info": (
        *("ClusterInfo", "RendezvousInfo", "ResourcesInfo", "TrialInfo", "get_cluster_info"),
    ),
    "windlass.core._preempt": ("DummyPreemptContext", "PreemptContext", "PreemptMode"),
    "windlass.core._profiler": ("DummyProfilerContext", "ProfilerContext"),
    "windlass.core._searcher": ("SearcherContext", "SearcherMode", "SearcherOperation", "Unit"),
    "windlass.core._tensorboard": ("TensorboardMode",),
    "windlass.core._train": ("DummyTrainContext", "EarlyExitReason", "InvalidHP", "TrainContext"),
    "windlass.storage": ("CheckpointNotFound",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # type checkers would take any other name, too

    def __getattr__(name: str) -> object:
        """One of `__all__`, at the first time."""
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(module), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
