"""Several cloud sections in one pool: each has a script of its own, and no two providers one name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from master.config import MasterConfig, ResolvedPool
from master.config.load import load
from master.wiring.cloud_providers import named_apart
from master.wiring.machine_boots import SettingsOfLaunches, boot_settings
from provisioner.types import OfferKey
from tests.fakes.fleet_world import an_offer
from tests.fakes.simulated_provider import SimulatedProvider
from windlass.base.clock import SystemClock
from windlass.base.errors import InvalidConfig, InvalidState

SECTIONS: list[dict[str, Any]] = [
    {"type": "aws", "region": "us-east-1", "instance_type": "g4dn.xlarge", "startup_script": "A"},
    {"type": "aws", "region": "us-east-1", "instance_type": "g5.xlarge", "startup_script": "B"},
    {"type": "aws", "region": "eu-west-1", "instance_type": "g4dn.xlarge", "startup_script": "C"},
    {
        "type": "gcp",
        "project": "acme-ml-1",
        "zone": "us-central1-a",
        "instance_type": {"machine_type": "a2-highgpu-2g"},
        "startup_script": "D",
    },
]
LAUNCHES = {
    "a": OfferKey(provider="aws-us-east-1", instance_type="g4dn.xlarge"),
    "b": OfferKey(provider="aws-us-east-1", instance_type="g5.xlarge"),
    "c": OfferKey(provider="aws-eu-west-1", instance_type="g4dn.xlarge"),
    "d": OfferKey(provider="gcp-acme-ml-1-us-central1", instance_type="a2-highgpu-2g"),
    "gone": OfferKey(provider="aws-us-east-1", instance_type="p3.2xlarge"),
}


def pools_of(*sections: dict[str, Any]) -> tuple[ResolvedPool, ...]:
    pools = [
        {"pool_name": "gpu", "providers": list(sections)},
        {"pool_name": "aux"},
    ]
    return MasterConfig.model_validate({"resource_pools": pools}).pools()


def test_each_section_has_its_own_startup_script() -> None:
    settings = SettingsOfLaunches(boot_settings(pools_of(*SECTIONS)), LAUNCHES.get)
    scripts = [settings("gpu", launch).startup_script for launch in "abcd"]
    assert scripts == ["A", "B", "C", "D"]
    for launch in ("gone", "never-was"):
        with pytest.raises(InvalidState, match=f"none of them is what launch {launch} was made"):
            settings("gpu", launch)
    assert settings("aux", "x").startup_script == ""


def test_a_pool_with_one_section_has_one_script_for_whatever_it_bought() -> None:
    settings = SettingsOfLaunches(boot_settings(pools_of(SECTIONS[1])), LAUNCHES.get)
    assert settings("gpu", "gone").startup_script == "B"


@pytest.mark.parametrize(
    ("auth", "logins"),
    [
        (
            {"serveraddress": "registry.example:5000", "username": "me", "password": "p4ss"},
            {"registry.example:5000": {"auth": "bWU6cDRzcw=="}},
        ),
        (
            {"auth": "bWU6cDRzcw=="},
            {
                "docker.io": {"auth": "bWU6cDRzcw=="},
                "https://index.docker.io/v1/": {"auth": "bWU6cDRzcw=="},
            },
        ),
        (
            {"serveraddress": "registry.example", "identitytoken": "t0k"},
            {"registry.example": {"identitytoken": "t0k"}},
        ),
    ],
)
def test_the_image_of_the_agent_comes_with_the_login_of_the_pool(
    auth: dict[str, str], logins: dict[str, Any]
) -> None:
    pools = [
        {
            "pool_name": "gpu",
            "task_container_defaults": {"registry_auth": auth},
            "provider": {**SECTIONS[0], "agent_docker_image": "registry.example/windlass:1"},
        }
    ]
    config = MasterConfig.model_validate({"resource_pools": pools})
    (settings,) = boot_settings(config.pools()).values()
    assert settings.image == "registry.example/windlass:1"
    assert settings.registries == logins
    assert "p4ss" not in repr(settings)
    assert "bWU6" not in repr(settings)


def test_the_published_image_has_no_effect_and_gets_no_login() -> None:
    for image in ("determinedai/determined-agent:0.38.1", "r:5000/x/determined-agent@sha256:0"):
        pools = pools_of({**SECTIONS[0], "agent_docker_image": image})
        (settings,) = boot_settings(pools).values()
        assert (settings.image, settings.registries) == ("", {})


@pytest.mark.parametrize("cloud", ["aws, region: us-east-1", "gcp, zone: us-east1-b"])
def test_mistakes_in_agent_yaml_of_a_pool_are_named_before_a_machine_boots(
    cloud: str, tmp_path: Path
) -> None:
    file = tmp_path / "master.yaml"
    contents = "{slot_typ: cuda, agent_id: mine, security: {tls: {skip_verify: maybe}}}"
    file.write_text(
        f"resource_pools: [{{pool_name: a, provider: {{type: {cloud}, agent_config_file_contents: {contents}}}}}]"
    )
    with pytest.raises(InvalidConfig) as refused:
        load(file)
    (said,) = refused.value.problems
    assert "provider.agent_config_file_contents" in said
    assert 'slot_typ: unknown key, did you mean "slot_type"?' in said
    assert "security.tls.skip_verify" in said
    published = contents.replace("slot_typ:", "slot_type:").replace("maybe", "false")
    hooks = published.replace("{slot", "{hooks: {on_connection_lost: [shutdown, now]}, slot")
    file.write_text(file.read_text().replace(contents, hooks))
    assert load(file).pools()


def test_providers_of_two_types_with_one_name_are_refused(tmp_path: Path) -> None:
    def maker(pools: object, cluster_id: str) -> list[SimulatedProvider]:
        return [
            SimulatedProvider(
                offers=[an_offer(provider="same")], clock=SystemClock(), cluster_id=cluster_id
            )
        ]

    with pytest.raises(InvalidConfig, match="same is the name of a provider of type embedded and"):
        named_apart({"embedded": maker, "aws": maker})([], "c1")
    assert len(named_apart({"embedded": maker, "aws": lambda *_: ()})([], "c1")) == 1
