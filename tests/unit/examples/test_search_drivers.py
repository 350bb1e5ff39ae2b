"""Programs that drive a search from outside: ended at any place, they go on with the same trials."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"


class Interrupted(Exception):
    """The program is ended."""


class Trials:
    """Instead of a cluster: a trial that was waited for has ended, with its learning rate as the result."""

    def __init__(self) -> None:
        self.added: dict[str, Mapping[str, Any]] = {}
        self.calls = 0
        self.ends_at: int | None = None
        self.closed = False

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.ends_at:
            raise Interrupted

    def add(self, key: str, hparams: Mapping[str, Any]) -> dict[str, Any]:
        assert self.added.setdefault(key, dict(hparams)) == hparams, "one key, one trial"
        self._call()
        return {"id": int(key)}

    def wait(self, trial_ids: Collection[int], *, poll_s: float) -> list[dict[str, Any]]:
        self._call()
        id_ = min(trial_ids)
        result = None if id_ == 3 else self.added[str(id_)]["learning_rate"]
        return [{"id": id_, "searcherMetricValue": result}]

    def close(self) -> None:
        self.closed = True


def driver(example: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    file = EXAMPLES / example / "drive.py"
    spec = importlib.util.spec_from_file_location(f"{example}_drive", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("example", ["optuna_search", "ray_tune_search"])
def test_its_program_compiles(example: str) -> None:
    """Its library need not be here."""
    file = EXAMPLES / example / "drive.py"
    compile(file.read_text(encoding="utf-8"), file, "exec")


@pytest.mark.parametrize("ends_at", [None, 2, 6, 17])
def test_a_searcher_of_ray_tune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_at: int | None
) -> None:
    pytest.importorskip("hyperopt", reason="hyperopt, which the example uses, is not installed")
    pytest.importorskip("ray.tune", reason="ray[tune], which the example uses, is not installed")
    drive = driver("ray_tune_search", monkeypatch)
    file, trials = tmp_path / "study.pkl", Trials()
    trials.ends_at = ends_at
    try:
        drive.drive(trials, drive.load(file), file)
    except Interrupted:
        drive.drive(trials, drive.load(file), file)
    told = drive.load(file).told
    assert list(trials.added) == [str(number) for number in range(1, drive.TRIALS + 1)]
    assert told.keys() == trials.added.keys()
    assert {key for key, value in told.items() if value is None} == {"3"}
    assert trials.closed
