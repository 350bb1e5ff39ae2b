"""Images and registry credentials of new work: refused with field, value and way out; kept in what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.bind_rules import HostPaths
from master.allocations.mounts import mount_problems
from master.config import load
from master.core.expconf import ClusterDefaults, complete
from master.core.expconf.interactive import complete_task
from master.core.expconf.kinds import CommandConfig
from master.core.expconf.references import take_secrets
from windlass.base.errors import InvalidConfig
from windlass.base.formats.image_reference import EXAMPLES

MINIMAL = {
    "entrypoint": "python3 train.py",
    "searcher": {"name": "single", "metric": "loss", "max_length": 1},
    "checkpoint_storage": {"type": "shared_fs", "host_path": "/ckpt"},
}


def problems_of_experiment(environment: dict[str, Any]) -> tuple[str, ...]:
    raw = {**MINIMAL, "environment": environment}
    with pytest.raises(InvalidConfig) as caught:
        complete(raw, defaults=ClusterDefaults(), seed=1, name="n")
    return tuple(caught.value.problems)


def command(environment: dict[str, Any]) -> CommandConfig:
    raw = {"entrypoint": ["true"], "environment": environment}
    return complete_task(CommandConfig, raw, defaults=ClusterDefaults())


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("My Image", f'<config>.environment.image: "My Image" holds a space or a control character: {EXAMPLES}'),
        (
            {"cpu": "mine", "gpu": "Mine"},
            f'<config>.environment.image.cuda: "Mine" must be in lower case: "mine": {EXAMPLES}',
        ),
    ],
)  # fmt: skip
def test_an_image_name_that_is_none_is_refused(image: object, line: str) -> None:
    assert problems_of_experiment({"image": image}) == (line,)
    with pytest.raises(InvalidConfig) as caught:
        command({"image": image})
    assert tuple(caught.value.problems) == (line,)


def test_a_long_name_is_not_shown_in_full() -> None:
    (line,) = problems_of_experiment({"image": "x " * 5000})
    assert len(line) < 500


def test_no_image_may_be_asked_for() -> None:
    assert command({"image": ""}).environment.image.cpu == ""


def test_what_is_stored_is_read_whatever_its_names_are() -> None:
    document = command({"image": "mine"}).to_json()
    document["environment"]["image"]["cpu"] = "No Name"
    assert CommandConfig.from_json(document).environment.image.cpu == "No Name"


def test_encoded_credentials_that_are_none_are_refused_unseen() -> None:
    (line,) = problems_of_experiment({"registry_auth": {"auth": "hush"}})
    assert line.startswith(
        "<config>.environment.registry_auth.auth: is not USER:PASSWORD in base64"
    )
    assert "hush" not in line


def test_encoded_credentials_of_the_cluster_are_a_reference_and_fine() -> None:
    encoded = {"registry_auth": {"auth": "dTpw"}}
    defaults, secrets = take_secrets(ClusterDefaults(task_container_defaults=encoded))
    config = complete_task(CommandConfig, {"entrypoint": ["true"]}, defaults=defaults)
    assert config.environment.registry_auth is not None
    assert config.environment.registry_auth.auth != "dTpw"
    resolved = secrets.resolved(config.to_json())
    assert resolved["environment"]["registry_auth"]["auth"] == "dTpw"


def test_the_operators_own_names_are_checked_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text(
        "task_container_defaults: {image: 'no name'}\n"
        "resource_pools: [{pool_name: a, task_container_defaults: {image: {cpu: net, cuda: Net}}}]\n"
    )
    with pytest.raises(InvalidConfig) as caught:
        load(file)
    assert [line.partition(": ")[0] for line in caught.value.problems] == [
        "<master.yaml>.resource_pools[0].task_container_defaults.image.cuda",
        "<master.yaml>.task_container_defaults.image",
    ]


def test_an_image_that_is_a_file_is_what_may_be_mounted() -> None:
    config = command({"image": "/images/net.sif"})
    assert list(mount_problems(config, HostPaths(), as_root=False)) == []
    closed = HostPaths(allowed=("/data",))
    lines = list(mount_problems(config, closed, as_root=False))
    assert lines == [
        "<config>.environment.image: /images/net.sif is not in allowed_host_paths of master.yaml: /data"
    ]
    whole = command({"image": "/"})
    assert "is the whole machine" in next(mount_problems(whole, HostPaths(), as_root=False))
