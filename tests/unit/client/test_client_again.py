"""`det experiment continue` and `fork`: what they send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from client_scripted_master import ScriptedMaster
from yaml import safe_load

from tests.fakes.client_cli import EXPERIMENT, det

CONTINUE = "/api/v1/experiments/continue"


def sent(master: ScriptedMaster, path: str) -> Any:
    (asked,) = (one for one in master.asked if (one.method, one.path) == ("POST", path))
    return asked.body


@pytest.mark.parametrize(
    ("arguments", "override"),
    [
        ([], None),
        (["--config", "searcher.max_length=100"], {"searcher": {"max_length": 100}}),
        (
            ["--config-file", "FILE", "--config", "max_restarts=1"],
            {"name": "more", "max_restarts": 1},
        ),
    ],
)
def test_continue_sends_the_override(
    arguments: list[str], override: object, cluster: ScriptedMaster, tmp_path: Path
) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("name: more\n")
    cluster.on("POST", CONTINUE, {"experiment": EXPERIMENT, "warnings": []})
    given = [str(file) if one == "FILE" else one for one in arguments]
    done = det(cluster, "experiment", "continue", "7", *given)
    assert (done.exit_code, done.stdout) == (0, "Continued experiment 7\n"), (
        done.output,
        done.stderr,
        done.exception,
    )
    body = sent(cluster, CONTINUE)
    assert body["id"] == 7
    assert safe_load(body["overrideConfig"]) == override


def test_fork_takes_the_configuration_of_its_parent(cluster: ScriptedMaster) -> None:
    parent = {**EXPERIMENT, "originalConfig": "name: digits\nmax_restarts: 3\n"}
    cluster.on("GET", "/api/v1/experiments/7", {"experiment": parent, "template": "base"})
    cluster.on("POST", "/api/v1/experiments", {"experiment": {**EXPERIMENT, "id": 8}})
    done = det(cluster, "experiment", "fork", "7", "--config", "name=other", "--paused")
    assert (done.exit_code, done.stdout) == (0, "Created experiment 8\n"), (
        done.output,
        done.stderr,
        done.exception,
    )
    body = sent(cluster, "/api/v1/experiments")
    assert safe_load(body["config"]) == {"name": "other", "max_restarts": 3}
    assert (body["parentId"], body["activate"], body["modelDefinition"]) == (7, False, [])
    assert body["template"] == "base"
