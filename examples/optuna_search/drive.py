"""An Optuna study drives a search on the cluster: it is asked for hyperparameters and told the result of each trial.

    pip install optuna
    python drive.py                       # submits search.yaml
    python drive.py --experiment 7        # goes on with an experiment after this program was ended

The study is kept in study.db, here. A trial of the study is the trial of the cluster with its number as the key:
what is added for a second time is the same trial.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from windlass.sdk.client import Client
from windlass.sdk.context_dir import pack_directory
from windlass.sdk.credentials import connect
from windlass.sdk.external_search import ExternalSearch

HERE = Path(__file__).parent
TRIALS, AT_ONCE = 20, 4
SPACE: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-4, 1.0, log=True),
    "layers": IntDistribution(1, 8),
}


def submit(client: Client) -> int:
    files = pack_directory(HERE / "model").files
    created = client.create_experiment((HERE / "search.yaml").read_text(), files)
    return int(created["experiment"]["id"])


def drive(search: ExternalSearch, study: optuna.Study, *, poll_s: float = 2.0) -> None:
    running: dict[int, int] = {}
    for unfinished in study.get_trials(states=(TrialState.RUNNING,)):
        if unfinished.params.keys() != SPACE.keys():  # this program was ended while it asked
            study.tell(unfinished.number, state=TrialState.FAIL)
            continue
        added = search.add(str(unfinished.number), unfinished.params)
        running[added["id"]] = unfinished.number
    while True:
        while len(running) < AT_ONCE and len(study.trials) < TRIALS:
            asked = study.ask(SPACE)
            added = search.add(str(asked.number), asked.params)
            running[added["id"]] = asked.number
        if not running:
            break
        for ended in search.wait(running, poll_s=poll_s):
            number, value = running.pop(ended["id"]), ended["searcherMetricValue"]
            if isinstance(value, float | int):
                study.tell(number, value)
            else:
                study.tell(number, state=TrialState.FAIL)
            print(f"trial {ended['id']}: {value}", flush=True)
    search.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--experiment", type=int)
    experiment = parser.parse_args().experiment
    client = Client(connect())
    experiment = experiment or submit(client)
    study = optuna.create_study(
        study_name=f"experiment-{experiment}",
        storage="sqlite:///study.db",
        sampler=optuna.samplers.TPESampler(multivariate=True, constant_liar=True),
        load_if_exists=True,
    )
    print(f"experiment {experiment}", flush=True)
    drive(client.external_search(experiment), study)
    print(f"best: {study.best_value} with {study.best_params}", flush=True)


if __name__ == "__main__":
    main()
