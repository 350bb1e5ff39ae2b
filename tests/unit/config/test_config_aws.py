"""Provider sections of type aws: every key of existing files, defaults, and mistakes that are named at once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from master.config.load import load
from provisioner.sections.aws import AwsSection
from provisioner.types import Market
from windlass.base.errors import InvalidConfig

POOL = "<master.yaml>.resource_pools[0]"

EXISTING = """
resource_pools:
  - pool_name: compute-pool
    max_aux_containers_per_agent: 0
    provider:
      type: aws
      region: us-west-2
      root_volume_size: 300
      image_id: ami-0123456789abcdef0
      tag_key: managed-by
      tag_value: determined-prod
      instance_name: determined-agent-prod
      ssh_key_name: ops
      network_interface:
        public_ip: false
        subnet_id: subnet-0123456789abcdef0
        security_group_id: sg-0123456789abcdef0
      iam_instance_profile_arn: arn:aws:iam::123456789012:instance-profile/agents
      instance_type: g4dn.12xlarge
      cpu_slots_allowed: false
      log_group: determined
      log_stream: agents
      spot: true
      spot_max_price: "1.50"
      custom_tags: [{key: team, value: vision}]
      master_url: https://master.example.com:8443
      master_cert_name: master.example.com
      startup_script: "mount /data"
      container_startup_script: "true"
      agent_docker_network: determined
      agent_docker_runtime: runc
      agent_docker_image: determinedai/determined-agent:0.38.1
      agent_fluent_image: fluent/fluent-bit:1.9
      agent_reconnect_attempts: 5
      agent_reconnect_backoff: 5
      agent_config_file_contents: {slot_type: cuda}
      max_idle_agent_period: 10m
      max_agent_starting_period: 15m
      min_instances: 0
      max_instances: 4
      launch_error_timeout: 1h
      launch_error_retries: 3
"""


def config_of(tmp_path: Path, text: str) -> tuple[AwsSection, tuple[str, ...]]:
    file = tmp_path / "master.yaml"
    file.write_text(text)
    config = load(file)
    section = config.pools()[0].providers[0]
    assert isinstance(section, AwsSection)
    return section, tuple(config.warnings)


def problems_of(tmp_path: Path, section: str) -> list[str]:
    file = tmp_path / "master.yaml"
    file.write_text(f"resource_pools: [{{pool_name: gpu, provider: {{type: aws, {section}}}}}]")
    with pytest.raises(InvalidConfig) as refused:
        load(file)
    return list(refused.value.problems)


def test_every_key_of_existing_files_is_taken_or_says_why_not(tmp_path: Path) -> None:
    section, warnings = config_of(tmp_path, EXISTING)
    assert section.bought_markets == (Market.SPOT,)
    assert section.max_price == "1.50"
    assert section.network_interface.security_group_id == "sg-0123456789abcdef0"
    said = {line.partition(" ")[0].rpartition(".")[2] for line in warnings}
    assert said == {
        *("log_group", "log_stream", "container_startup_script", "agent_docker_network"),
        *("agent_docker_runtime", "agent_fluent_image", "agent_reconnect_attempts"),
        "agent_docker_image",
        *("agent_reconnect_backoff", "launch_error_timeout", "launch_error_retries"),
    }


def test_defaults_are_those_of_existing_files(tmp_path: Path) -> None:
    section, warnings = config_of(
        tmp_path, "resource_pools: [{pool_name: gpu, provider: {type: aws}}]"
    )
    assert warnings == ()
    assert (section.instance_type, section.root_volume_size) == ("g4dn.metal", 200)
    assert section.instance_name == "determined-ai-agent"
    assert section.tag_key == "managed_by"
    assert section.bought_markets == (Market.ON_DEMAND,)
    assert section.network_interface.public_ip


def test_the_form_of_old_releases_is_taken(tmp_path: Path) -> None:
    section, warnings = config_of(
        tmp_path,
        "provisioner: {provider: aws, region: eu-west-1, instance_type: p3.8xlarge, "
        "max_idle_agent_period: 3m, ssh_key_name: ops}",
    )
    assert (section.region, section.instance_type) == ("eu-west-1", "p3.8xlarge")
    assert section.max_idle_agent_period == timedelta(minutes=3)
    assert len(warnings) == 1


def test_ten_mistakes_are_named_at_once_with_what_was_meant(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path,
        "region: us-eat-1, instance_type: g4dn.12xlage, root_volume_size: 50, image_id: ubuntu, "
        "spot_max_price: cheap, iam_instance_profile_arn: agents, imageid: x, max_instances: 0, "
        "network_interface: {subnet_id: default, security_group: sg-1}, "
        "custom_tags: [{key: 'aws:x', value: a}, {key: b}], reservations: [mine], boot_time: 0s",
    )
    at = f"{POOL}.provider"
    assert found == [
        f"{at}.boot_time: must be > 0s but found 0s",
        f'{at}.custom_tags[0].key: "aws:x" is reserved: use another key',
        f'{at}.custom_tags[1]: missing properties: "value"',
        f'{at}.iam_instance_profile_arn: "agents" is not the ARN of an instance profile, '
        'such as "arn:aws:iam::123456789012:instance-profile/agents"',
        f'{at}.image_id: "ubuntu" is not the id of an image, such as "ami-0a1b2c3d"',
        f'{at}.instance_type: "g4dn.12xlage" is no known instance type: did you mean '
        '"g4dn.12xlarge"? Else give instance_slots',
        f"{at}.max_instances: must be >= 1 but found 0",
        f'{at}.network_interface.subnet_id: "default" is not the id of a subnet, '
        'such as "subnet-0a1b2c3d"',
        f'{at}.network_interface: additionalProperties "security_group" not allowed; '
        'did you mean "security_group_id"?',
        f'{at}.region: "us-eat-1" is no region of AWS: did you mean "us-east-1"?',
        f'{at}.reservations[0]: "mine" is not the id of a capacity reservation, '
        'such as "cr-0a1b2c3d"',
        f"{at}.root_volume_size: must be >= 100 but found 50",
        f'{at}.spot_max_price: "cheap" is no price: write USD per hour, such as "1.25"',
        f'{at}: additionalProperties "imageid" not allowed; did you mean "image_id"?',
    ]


@pytest.mark.parametrize(
    ("section", "line"),
    [
        (
            "region: eu-west-1, zones: [eu-west-1a, eu-west-2b]",
            '.zones: "eu-west-2b" is no zone of eu-west-1: did you mean "eu-west-1b"?',
        ),
        (
            "instance_type: q.q",
            '.instance_type: "q.q" is no known instance type: if AWS has it, give instance_slots',
        ),
        (
            "spot: true, markets: [on_demand]",
            ".markets: does not contain spot, but spot is true: remove spot",
        ),
        ("markets: [spot, spot]", ".markets: a market is named twice: remove one"),
        (
            "image_id: ami-1, image_parameter: /x",
            ".image_parameter: give either image_id or image_parameter, not both",
        ),
        (
            "launch_template: 'a b'",
            '.launch_template: "a b" is no launch template: write its id or name, or "NAME:3"',
        ),
        (
            "subnets: [subnet-1], network_interface: {subnet_id: subnet-2}",
            ".subnets: give either subnets or network_interface.subnet_id, not both",
        ),
        (
            "custom_tags: [{key: Name, value: a}, {key: b, value: c}, {key: b, value: d}]",
            ".custom_tags: Name, b: given twice",
        ),
        (
            "region: mars-1",
            '.region: "mars-1" is no region of AWS, such as "us-east-1"',
        ),
    ],
)
def test_what_two_keys_say_together_is_checked(tmp_path: Path, section: str, line: str) -> None:
    assert problems_of(tmp_path, section) == [f"{POOL}.provider{line}"]


def test_a_type_that_is_not_known_yet_needs_its_slots(tmp_path: Path) -> None:
    section, _ = config_of(
        tmp_path,
        "resource_pools: [{pool_name: gpu, provider: "
        "{type: aws, instance_type: p9.96xlarge, instance_slots: 16}}]",
    )
    assert section.instance_slots == 16


def test_a_region_that_is_not_known_yet_is_taken(tmp_path: Path) -> None:
    section, _ = config_of(
        tmp_path,
        "resource_pools: [{pool_name: gpu, provider: {type: aws, region: nz-polar-7}}]",
    )
    assert section.region == "nz-polar-7"


def provider(folder: Path, text: str) -> AwsSection:
    file = folder / "master.yaml"
    file.write_text(f"resource_pools: [{{pool_name: gpu, provider: {text}}}]")
    (found,) = load(file).pools()[0].providers
    assert isinstance(found, AwsSection)
    return found


@pytest.mark.parametrize(
    ("kind", "slots", "said"),
    [
        ("trn1.32xlarge", "", "AWS Neuron devices, which no runtime of Windlass gives to tasks"),
        ("inf2.xlarge", "instance_slots: 1, ", "use a type with NVIDIA GPUs, such as g5.xlarge"),
        ("dl1.24xlarge", "instance_slots: 8, ", "use a type with NVIDIA GPUs"),
        ("g5g.xlarge", "", "has Arm processors"),
    ],
)
def test_machines_that_tasks_cannot_use_are_refused(
    kind: str, slots: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        provider(tmp_path, f"{{type: aws, {slots}instance_type: {kind}}}")
    assert said in str(refused.value)


def test_who_says_the_slots_of_arm_machines_knows_them(tmp_path: Path) -> None:
    found = provider(tmp_path, "{type: aws, instance_slots: 2, instance_type: g5g.metal}")
    assert found.instance_type == "g5g.metal"
