"""The GPU metrics of `core_context.profiler`, of the GPUs that are here."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from windlass.core._usage import gpu_reader

pytestmark = pytest.mark.gpu


def test_gpus_are_named_and_measured() -> None:
    everything = gpu_reader(None)
    if everything is None:
        pytest.skip("NVML sees no GPU on this machine")
    found = everything()
    for uuid, measured in found.items():
        assert uuid.startswith("GPU-")
        assert isinstance(measured, Mapping)
        assert set(measured) == {"gpu_util", "gpu_free_memory"}
        assert all(isinstance(value, float) and value >= 0 for value in measured.values())
    first = next(iter(found))
    only = gpu_reader([first])
    assert only is not None
    assert list(only()) == [first]
    assert gpu_reader([]) is None
