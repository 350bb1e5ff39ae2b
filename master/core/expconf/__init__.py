"""Experiment configuration: `parse` what users write, `merge` layers, `complete` to the frozen model. Pure."""

from master.core.expconf.container_defaults import (
    TaskContainerDefaults,
    merge_container_defaults,
)
from master.core.expconf.models.experiment import ExperimentConfig
from master.core.expconf.parsing.merging import merge
from master.core.expconf.reading import ClusterDefaults, check, complete, parse

__all__ = [
    "ClusterDefaults",
    "ExperimentConfig",
    "TaskContainerDefaults",
    "check",
    "complete",
    "merge",
    "merge_container_defaults",
    "parse",
]
