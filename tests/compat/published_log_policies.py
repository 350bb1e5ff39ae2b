"""Runs in the environment of the published package: an experiment with log policies, by its SDK and its bindings.

Usage: published_log_policies.py CONFIG_JSON MODEL_FOLDER. Prints JSON.
"""

from __future__ import annotations

import json
import os
import sys

from determined.common.api import authentication, bindings
from determined.experimental import client

config, model = json.loads(sys.argv[1]), sys.argv[2]
client.login()
experiment = client.create_experiment(config, model)
state = experiment.wait(interval=0.2)
(trial,) = experiment.get_trials()
master, user = os.environ["DET_MASTER"], os.environ["DET_USER"]
session = authentication.login(master, user, os.environ["DET_PASS"])
(listed,) = bindings.get_GetExperimentTrials(session, experimentId=experiment.id).trials
shown = bindings.get_GetTrial(session, trialId=trial.id).trial
told = bindings.get_GetExperiment(session, experimentId=experiment.id)
print(
    json.dumps(
        {
            "experiment": experiment.id,
            "state": state.value,
            "restarts": shown.restarts,
            "matched": [shown.logPolicyMatched, listed.logPolicyMatched],
            "policies": told.config["log_policies"],
            "logs": list(trial.logs()),
        }
    )
)
