"""A searcher of Ray Tune drives a search on the cluster; nothing of Ray runs but the searcher, here HyperOpt's.

    pip install 'ray[tune]' hyperopt
    python drive.py                       # submits search.yaml
    python drive.py --experiment 7        # goes on with an experiment after this program was ended

Searcher and results are kept in experiment-7.pkl, here, and written before a trial is added: what is added for a
second time is the same trial.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune
from ray.tune.search import Searcher
from ray.tune.search.hyperopt import HyperOptSearch

from windlass.sdk.client import Client
from windlass.sdk.context_dir import pack_directory
from windlass.sdk.credentials import connect
from windlass.sdk.external_search import ExternalSearch

HERE = Path(__file__).parent
MODEL = HERE.parent / "optuna_search" / "model"
METRIC = "loss"
TRIALS, AT_ONCE = 20, 4
SPACE = {"learning_rate": tune.loguniform(1e-4, 1.0), "layers": tune.randint(1, 9)}


@dataclass
class Study:
    """What outlives this program."""

    searcher: Searcher
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Hyperparameters, by the key of the trial."""
    told: dict[str, float | None] = field(default_factory=dict)
    """Results; None: it failed."""

    def ask(self) -> None:
        key = str(len(self.asked) + 1)
        self.asked[key] = self.searcher.suggest(key)

    def tell(self, key: str, value: object) -> None:
        result = float(value) if isinstance(value, float | int) else None
        if result is None:
            self.searcher.on_trial_complete(key, error=True)
        else:
            self.searcher.on_trial_complete(key, {METRIC: result})
        self.told[key] = result

    def save(self, file: Path) -> None:
        whole = file.with_suffix(".new")
        whole.write_bytes(cloudpickle.dumps(self))
        whole.replace(file)


def load(file: Path) -> Study:
    if file.exists():
        study: Study = cloudpickle.loads(file.read_bytes())
        return study
    searcher = HyperOptSearch()
    searcher.set_search_properties(METRIC, "min", SPACE)
    return Study(searcher)


def submit(client: Client) -> int:
    files = pack_directory(MODEL).files
    created = client.create_experiment((HERE / "search.yaml").read_text(), files)
    return int(created["experiment"]["id"])


def drive(search: ExternalSearch, study: Study, file: Path, *, poll_s: float = 2.0) -> None:
    running: dict[int, str] = {}
    while True:
        while len(study.asked) < min(TRIALS, len(study.told) + AT_ONCE):
            study.ask()
        study.save(file)
        for key, hparams in study.asked.items():
            if key not in study.told and key not in running.values():
                running[search.add(key, hparams)["id"]] = key
        if not running:
            break
        for ended in search.wait(running, poll_s=poll_s):
            value = ended["searcherMetricValue"]
            study.tell(running.pop(ended["id"]), value)
            print(f"trial {ended['id']}: {value}", flush=True)
    search.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiment", type=int)
    experiment = parser.parse_args().experiment
    client = Client(connect())
    experiment = experiment or submit(client)
    print(f"experiment {experiment}", flush=True)
    file = Path(f"experiment-{experiment}.pkl")
    study = load(file)
    drive(client.external_search(experiment), study, file)
    value, best = min((value, key) for key, value in study.told.items() if value is not None)
    print(f"best: {value} with {study.asked[best]}", flush=True)


if __name__ == "__main__":
    main()
