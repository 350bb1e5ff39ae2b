"""The names of `windlass.core` are imported when they are asked for, and are all there."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from windlass import core


def test_every_name_that_is_published_is_there() -> None:
    program = "from windlass.core import *; print(*sorted(globals()))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    )
    assert set(core.__all__) <= set(done.stdout.split())
    assert set(core.__all__) <= set(dir(core))


def test_a_class_is_the_same_one_after_pickling() -> None:
    for name in core.__all__:
        value = getattr(core, name)
        assert pickle.loads(pickle.dumps(value)) is value  # noqa: S301 - our own


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"'windlass\.core' has no attribute 'Contxt'"):
        getattr(core, "Contxt")  # noqa: B009 - type checkers know that it is not there
