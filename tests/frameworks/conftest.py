"""Training frameworks in environments of their own, which `make torch` and `make tensorflow` make.

WINDLASS_TEST_TORCH and WINDLASS_TEST_TENSORFLOW name a Python of another place.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster

REPOSITORY = Path(__file__).parents[2]
LOAD_ALL = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"
"""PyTorch 2.6 and later refuse the published package's own checkpoints without it."""
MODELS = Path(__file__).parent / "models"


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """An interpreter with PyTorch and the published package."""
    python = Path(os.environ.get("WINDLASS_TEST_TORCH", REPOSITORY / ".torch/bin/python"))
    probe = [str(python), "-c", "import torch, determined.pytorch"]
    if not python.exists() or subprocess.run(probe, check=False, capture_output=True).returncode:
        pytest.skip(f"{python} has no PyTorch with the published package: run `make torch`")
    return python


@pytest.fixture(scope="session")
def tensorflow_python() -> Path:
    """An interpreter with TensorFlow and the published package."""
    default = REPOSITORY / ".tensorflow/bin/python"
    python = Path(os.environ.get("WINDLASS_TEST_TENSORFLOW", default))
    if not python.exists():
        pytest.skip(f"{python} is not there: run `make tensorflow`")
    return python


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Two agents with a slot each: work of two slots is a gang on two nodes."""
    config = {"resource_pools": [{"pool_name": "default", "agent_reconnect_wait": "2s"}]}
    with RealCluster(tmp_path_factory.mktemp("frameworks"), config) as cluster:
        for node in ("node-a", "node-b"):
            cluster.start_agent(node, slots=1)
        yield cluster


def config_of(python: Path, entrypoint: str, **changes: Any) -> dict[str, Any]:
    """An experiment of one trial whose programs are those of the environment with PyTorch."""
    home = python.parents[1]
    return {
        "name": "frameworks",
        "entrypoint": entrypoint,
        "searcher": {"name": "single", "metric": "val_loss", "max_length": {"batches": 40}},
        "hyperparameters": {"global_batch_size": 16, "learning_rate": 0.05},
        "scheduling_unit": 4,
        "min_checkpoint_period": {"batches": 8},
        "min_validation_period": {"batches": 20},
        "reproducibility": {"experiment_seed": 7},
        "bind_mounts": [{"host_path": str(home), "container_path": str(home), "read_only": True}],
        "environment": {
            "environment_variables": [
                f"PATH={python.parent}:/usr/bin:/bin",
                "OMP_NUM_THREADS=1",
                LOAD_ALL,
            ]
        },
        "max_restarts": 0,
        **changes,
    }
