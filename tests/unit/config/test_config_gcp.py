"""Provider sections of type gcp: every key of existing files, defaults, and mistakes that are named at once."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from master.config.load import load
from master.wiring.gcp import ENDPOINT_VARIABLE, ZONE_VARIABLE, sites_of
from provisioner.providers.gcp.catalogue import TypeFacts
from provisioner.providers.gcp.request import properties
from provisioner.sections.gcp import GcpSection
from provisioner.types import Market, OfferKey
from windlass.base.errors import InvalidConfig

POOL = "<master.yaml>.resource_pools[0]"

EXISTING = """
resource_pools:
  - pool_name: compute-pool
    max_aux_containers_per_agent: 0
    provider:
      type: gcp
      base_config: {minCpuPlatform: Intel Skylake, labels: {a: b}}
      project: acme-ml-1
      zone: us-west1-b
      boot_disk_size: 300
      boot_disk_source_image: projects/determined-ai/global/images/det-environments-0736b6d
      boot_disk_type: projects/determined-ai/zones/us-west1-b/diskTypes/pd-ssd
      labels: {team: vision}
      label_key: managed-by
      label_value: determined-prod
      name_prefix: det-prod-
      network_interface:
        network: projects/acme-ml-1/global/networks/training
        subnetwork: projects/acme-ml-1/regions/us-west1/subnetworks/training-a
        external_ip: true
      network_tags: [det-agent]
      service_account:
        email: agents@acme-ml-1.iam.gserviceaccount.com
        scopes: [https://www.googleapis.com/auth/cloud-platform]
      instance_type: {machine_type: n1-standard-8, gpu_type: nvidia-tesla-v100, gpu_num: 2, preemptible: true}
      cpu_slots_allowed: false
      operation_timeout_period: 10m
      use_cloud_logging: true
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


def config_of(tmp_path: Path, text: str) -> tuple[GcpSection, tuple[str, ...]]:
    file = tmp_path / "master.yaml"
    file.write_text(text)
    config = load(file)
    section = config.pools()[0].providers[0]
    assert isinstance(section, GcpSection)
    return section, tuple(config.warnings)


def pools_of(tmp_path: Path, *sections: str) -> Any:
    file = tmp_path / "master.yaml"
    listed = ", ".join(f"{{type: gcp, {section}}}" for section in sections)
    file.write_text(f"resource_pools: [{{pool_name: gpu, providers: [{listed}]}}]")
    return load(file).pools()


def problems_of(tmp_path: Path, section: str) -> list[str]:
    file = tmp_path / "master.yaml"
    file.write_text(f"resource_pools: [{{pool_name: gpu, provider: {{type: gcp, {section}}}}}]")
    with pytest.raises(InvalidConfig) as refused:
        load(file)
    return list(refused.value.problems)


def test_every_key_of_existing_files_is_taken_or_says_why_not(tmp_path: Path) -> None:
    _, warnings = config_of(tmp_path, EXISTING)
    said = {line.partition(" ")[0].rpartition(".")[2] for line in warnings}
    assert said == {
        *("use_cloud_logging", "container_startup_script", "agent_docker_network"),
        *("agent_docker_runtime", "agent_fluent_image", "agent_reconnect_attempts"),
        *("agent_reconnect_backoff", "launch_error_timeout", "launch_error_retries"),
        "agent_docker_image",
    }


def test_what_an_existing_file_says_is_what_is_bought(tmp_path: Path) -> None:
    section, _ = config_of(tmp_path, EXISTING)
    (pool,) = load(tmp_path / "master.yaml").pools()
    ((site, (bought,)),) = sites_of([pool]).items()
    assert (site.name, site.project, site.region) == (
        "gcp-acme-ml-1-us-west1",
        "acme-ml-1",
        "us-west1",
    )
    assert (bought.pool, bought.section) == ("compute-pool", section)
    assert section.instance_type.machine_type == "n1-standard-8"
    assert section.instance_type.added == ("nvidia-tesla-v100", 2)
    assert section.bought_markets == (Market.SPOT,)
    assert section.all_zones == ("us-west1-b",)
    assert section.all_labels == {"team": "vision", "managed-by": "determined-prod"}
    key = OfferKey(provider="gcp", region="us-west1", market=Market.SPOT)
    made = properties(key, section, TypeFacts(), "acme-ml-1")
    disk = made["disks"][0]["initializeParams"]
    assert (disk["diskSizeGb"], disk["diskType"]) == ("300", "pd-ssd")
    assert section.name_prefix == "det-prod-"
    assert section.operation_timeout_period.total_seconds() == 600.0
    assert section.network_interface.external_ip
    assert section.network_tags == ("det-agent",)
    assert section.base_config == {"minCpuPlatform": "Intel Skylake", "labels": {"a": "b"}}


def test_defaults_are_those_of_existing_files(tmp_path: Path) -> None:
    section, warnings = config_of(
        tmp_path, "resource_pools: [{pool_name: gpu, provider: {type: gcp, zone: us-west1-b}}]"
    )
    assert warnings == ()
    assert section.instance_type.machine_type == "n1-standard-32"
    assert section.instance_type.added == ("nvidia-tesla-t4", 4)
    assert section.boot_disk_size == 200
    assert section.operation_timeout_period == timedelta(minutes=5)
    assert section.bought_markets == (Market.ON_DEMAND,)
    assert (section.label_key, section.network_interface.external_ip) == ("managed-by", False)


@pytest.mark.parametrize(
    ("machine", "added"),
    [
        ("machine_type: a2-highgpu-8g", ("", 0)),
        ("machine_type: a2-highgpu-8g, gpu_type: nvidia-tesla-a100, gpu_num: 8", ("", 0)),
        ("machine_type: n2-standard-4", ("", 0)),
        ("machine_type: n1-standard-4, gpu_num: 0", ("", 0)),
        ('machine_type: n1-standard-4, gpu_type: ""', ("", 0)),
        ("machine_type: n1-standard-4, gpu_num: 1", ("nvidia-tesla-t4", 1)),
        ("machine_type: custom-8-30720", ("nvidia-tesla-t4", 4)),
        ("machine_type: c2-standard-60", ("", 0)),
        ("machine_type: m1-ultramem-40", ("", 0)),
    ],
)
def test_gpus_are_added_only_where_google_adds_them(
    tmp_path: Path, machine: str, added: tuple[str, int]
) -> None:
    (pool,) = pools_of(tmp_path, f"zone: us-west1-b, instance_type: {{{machine}}}")
    assert pool.providers[0].instance_type.added == added


def test_the_form_of_old_releases_is_taken(tmp_path: Path) -> None:
    section, warnings = config_of(
        tmp_path,
        "provisioner: {provider: gcp, zone: europe-west4-a, max_idle_agent_period: 3m, "
        "instance_type: {machine_type: a2-highgpu-1g}}",
    )
    assert section.own_region == "europe-west4"
    assert section.max_idle_agent_period == timedelta(minutes=3)
    assert len(warnings) == 1


def test_ten_mistakes_are_named_at_once_with_what_was_meant(tmp_path: Path) -> None:
    found = problems_of(
        tmp_path,
        "zone: us-cetral1-a, region: us-eats1, boot_disk_size: 50, project: 'Acme ML', zoone: x, "
        "instance_type: {machine_type: n1-standrd-8}, boot_disk_source_image: ubuntu, "
        "label_value: Determined, max_instances: 0, markets: [sport], "
        "base_config: {machineType: n1-standard-8}, service_account: {email: agents}",
    )
    text = "\n".join(found)
    assert len(found) >= 10
    for said in (
        '"us-cetral1-a" is no zone of Google Cloud: did you mean "us-central1-a"?',
        '"us-eats1" is no region of Google Cloud: did you mean "us-east1"?',
        '"n1-standrd-8" is no machine type of Google Cloud: did you mean "n1-standard-8"?',
        f"{POOL}.provider.boot_disk_size",
        '"Acme ML" is not the id of a project',
        'did you mean "zone"?',
        '"ubuntu" is not an image',
        '"Determined" is not a value of labels',
        "machineType: use instance_type.machine_type",
        '"agents" is not the address of a service account',
        f"{POOL}.provider.markets",
    ):
        assert said in text, said


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("zone: us-central1", 'did you mean "us-central1-a"?'),
        (
            "zones: [us-east1-b, us-west1-a]",
            "zones are in us-east1 and us-west1: give each region a section of its own",
        ),
        (
            "region: us-east1, zones: [us-west1-a]",
            "zones are in us-west1, but region is us-east1: remove one",
        ),
        (
            "instance_type: {machine_type: n1-standard-8, gpu_type: nvidia-tesla-k9}",
            '"nvidia-tesla-k9" cannot be added to n1-standard-8',
        ),
        (
            "instance_type: {machine_type: n1-standard-8, gpu_type: nvidia-tesla-t4, gpu_num: 3}",
            "3 of nvidia-tesla-t4 cannot be added: use 1, 2, 4 or 0",
        ),
        (
            "instance_type: {machine_type: a2-highgpu-8g, gpu_num: 4}",
            "a2-highgpu-8g has 8 GPUs: remove gpu_num",
        ),
        (
            "instance_type: {machine_type: n2-standard-8, gpu_num: 4}",
            "n2-standard-8 takes no GPUs",
        ),
        ("markets: [spot, spot]", "a market is named twice"),
        (
            "markets: [on_demand], instance_type: {preemptible: true}",
            "does not contain spot, but instance_type.preemptible is true",
        ),
        ("labels: {windlass_pool: x}", '"windlass_pool" is reserved: use another key'),
        ("labels: {Team: x}", '"Team: x" is no label'),
        (
            "base_config: {metadata: {items: [{key: startup-script, value: x}]}}",
            "metadata: startup-script is ours: use startup_script",
        ),
        ("base_config: {disks: 3}", "disks: expected a list"),
        ("name_prefix: Det", "name_prefix"),
    ],
)
def test_a_mistake_says_what_to_do(tmp_path: Path, section: str, said: str) -> None:
    assert any(said in problem for problem in problems_of(tmp_path, section))


def test_sections_of_one_region_are_one_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT_VARIABLE, "https://compute.example.com/compute/v1/")
    kinds = "instance_type: {machine_type: a2-highgpu-1g}"
    pools = pools_of(
        tmp_path,
        f"project: acme-ml-1, zone: us-east1-b, {kinds}",
        "project: acme-ml-1, zones: [us-east1-c]",
        f"project: acme-ml-1, region: us-west1, {kinds}",
    )
    sites = sites_of(pools)
    assert {site.name: len(bought) for site, bought in sites.items()} == {
        "gcp-acme-ml-1-us-east1": 2,
        "gcp-acme-ml-1-us-west1": 1,
    }
    assert {site.endpoint_url for site in sites} == {"https://compute.example.com"}


def test_sections_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    pools = pools_of(
        tmp_path,
        "name: a, zone: us-east1-b",
        "name: b, zone: us-east1-c",
        "name: a, zone: us-west1-a",
    )
    with pytest.raises(InvalidConfig) as refused:
        sites_of(pools)
    text = "\n".join(refused.value.problems)
    assert "name of us-east1 differ (a, b): give one" in text
    assert "have n1-standard-32+4xnvidia-tesla-t4 twice" in text
    assert "a names several projects or regions" in text


def test_without_a_zone_it_is_where_the_master_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = pools_of(tmp_path, "project: acme-ml-1")
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    monkeypatch.delenv(ZONE_VARIABLE, raising=False)
    with pytest.raises(InvalidConfig, match="give zone, zones or region"):
        sites_of(pools)
    monkeypatch.setenv(ZONE_VARIABLE, "us-east1-b")
    ((site, bought),) = sites_of(pools).items()
    assert site.region == "us-east1"
    assert bought[0].section.all_zones == ("us-east1-b",)
