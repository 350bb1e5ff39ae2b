"""A process that answers one question of `sampler_question` with Optuna: JSON in, `{"points": [...]}` out."""

from __future__ import annotations

import json
import resource
import sys
import warnings
from typing import Any

MEMORY = 4 * 2**30
"""Bytes of address space: a sampler that needs more fails, and not its master."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    question = json.load(sys.stdin)
    json.dump({"points": points(question)}, sys.stdout)


def points(question: dict[str, Any]) -> list[list[float]]:
    import optuna
    from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
    from optuna.trial import TrialState, create_trial

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space: dict[str, BaseDistribution] = {}
    for number, (kind, low, high) in enumerate(question["axes"]):
        name = f"{number:04}"
        if kind == "choice":
            space[name] = optuna.distributions.CategoricalDistribution(range(high + 1))
        elif kind == "int":
            space[name] = IntDistribution(low, high)
        else:
            space[name] = FloatDistribution(low, high)
    study = optuna.create_study(
        direction="minimize" if question["minimize"] else "maximize",
        sampler=optuna.samplers.TPESampler(
            seed=question["seed"], multivariate=True, constant_liar=True
        ),
    )

    def params(point: list[float]) -> dict[str, float]:
        return dict(zip(space, point, strict=True))

    study.add_trials(
        [
            create_trial(params=params(point), distributions=space, value=value)
            for point, value in question["done"]
        ]
    )
    study.add_trials(
        [
            create_trial(params=params(point), distributions=space, state=TrialState.RUNNING)
            for point in question["pending"]
        ]
    )
    asked = [study.ask(space).params for _ in range(question["count"])]
    return [[each[name] for name in space] for each in asked]


if __name__ == "__main__":
    main()
