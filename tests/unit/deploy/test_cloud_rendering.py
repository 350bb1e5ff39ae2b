"""master.yaml, the script of the master's machine and the secret, as `det deploy aws | gcp` render them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from master.config.load import load
from provisioner.sections.providers import PROVIDERS
from windlass.base.errors import InvalidConfig
from windlass.cli.main import app
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.plan import aws_plan
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.plan import gcp_plan
from windlass.deploy.cloud.on_master import write_config
from windlass.deploy.cloud.parsing import parse
from windlass.deploy.cloud.plan import DeployPlan
from windlass.deploy.cloud.rendering import template_of
from windlass.deploy.cloud.template import filled, from_terraform

MADE = {
    "agent_instance_profile": "arn:aws:iam::123456789012:instance-profile/det-lab-agent",
    "agent_security_group": "sg-0a1b",
    "agent_subnets": '["subnet-0a1b", "subnet-0c2d"]',
    "agent_service_account": "det-agent-lab@my-project.iam.gserviceaccount.com",
    "bucket": "det-lab-us-west-2-123456789012",
    "data_disk": "vol0a1b",
    "database_host": "db.internal",
    "files_host": "10.0.0.3",
    "files_mount_name": "fsx",
    "master_address": "203.0.113.5",
    "network": "det-default",
    "secret": "arn:aws:secretsmanager:us-west-2:123456789012:secret:det-lab-x",
    "secrets_version": "1",
    "subnetwork": "det-default",
}
"""What Terraform would know."""


def plan_of(cloud: str, **given: Any) -> DeployPlan:
    if cloud == "aws":
        base = {"cluster_id": "lab", "region": "us-west-2"}
        return aws_plan(parse(AwsOptions, {**base, **given}, "options"), ())
    base = {"cluster_id": "lab", "project_id": "my-project"}
    return gcp_plan(parse(GcpOptions, {**base, **given}, "options"), ())


def as_terraform(text: str, made: Mapping[str, str] = MADE) -> str:
    """What `templatestring` does."""
    return re.sub(r"\$\$\{|%%\{|\$\{(\w+)\}", lambda m: made[m[1]] if m[1] else m[0][1:], text)


def boot_of(plan: DeployPlan, made: Mapping[str, str] = MADE) -> str:
    return as_terraform(plan.variables["master_boot"], made)


def config_of(plan: DeployPlan, made: Mapping[str, str] = MADE) -> dict[str, Any]:
    """master.yaml as the script writes it, before passwords."""
    text = boot_of(plan, made).split("<<'END_OF_MASTER_YAML'\n")[1].split("\nEND_OF_MASTER_YAML")[0]
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def whole_config(plan: DeployPlan, folder: Path, made: Mapping[str, str] = MADE) -> Path:
    write_config(yaml.safe_dump(config_of(plan, made)), dict(plan.secrets), folder)
    return folder / "master.yaml"


def without_providers(path: Path) -> Path:
    document = yaml.safe_load(path.read_text())
    for pool in document["resource_pools"]:
        del pool["provider"]
    path.write_text(yaml.safe_dump(document))
    return path


CASES: list[tuple[str, Mapping[str, Any]]] = [
    ("aws", {}),
    ("aws", {"deployment_type": "efs", "spot": True, "add_tag": ["team=vision"]}),
    ("aws", {"deployment_type": "fsx", "scheduler_type": "priority", "preemption_enabled": "true"}),
    ("aws", {"deployment_type": "secure", "keypair": "k", "inbound_cidr": "10.0.0.0/8"}),
    ("aws", {"database": "local", "tls": False, "cpu_env_image": "c:1", "gpu_env_image": "g:1"}),
    ("aws", {"docker_user": "me", "docker_pass": "hunter345"}),
    ("gcp", {}),
    ("gcp", {"no_filestore": True, "preemptible": "true", "database": "local"}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("cloud", "given"), CASES)
def test_the_models_of_the_master_take_it(
    cloud: str, given: Mapping[str, Any], tmp_path: Path
) -> None:
    path = whole_config(plan_of(cloud, **given), tmp_path)
    if cloud not in PROVIDERS:
        path = without_providers(path)
    config = load(path)
    assert [pool.pool_name for pool in config.resource_pools] == ["aux-pool", "compute-pool"]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_models_of_providers_take_it(cloud: str, tmp_path: Path) -> None:
    if cloud not in PROVIDERS:
        pytest.skip(f"this release has no provider {cloud} yet")
    config = load(whole_config(plan_of(cloud), tmp_path))
    aux, compute = (pool.provider for pool in config.resource_pools)
    assert aux is not None
    assert compute is not None
    assert aux.type == compute.type == cloud
    assert aux != compute


def test_pools_are_as_the_published_ones() -> None:
    for cloud in ("aws", "gcp"):
        aux, compute = config_of(plan_of(cloud))["resource_pools"]
        assert (aux["pool_name"], aux["max_aux_containers_per_agent"]) == ("aux-pool", 16)
        assert (compute["pool_name"], compute["max_aux_containers_per_agent"]) == (
            "compute-pool",
            0,
        )
        assert compute["provider"]["cpu_slots_allowed"] is True
        assert "cpu_slots_allowed" not in aux["provider"]


SECRETS = ("user-word-1", "database-word", "registry-word", "PRIVATE KEY OF TLS")


def with_secrets(tmp_path: Path) -> DeployPlan:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text("CERTIFICATE")
    key.write_text(SECRETS[3])
    return plan_of(
        "aws",
        initial_user_password=SECRETS[0],
        db_password=SECRETS[1],
        docker_user="me",
        docker_pass=SECRETS[2],
        master_tls_cert=cert,
        master_tls_key=key,
    )


def test_no_secret_is_in_variables_or_the_script_or_the_plan_as_text(tmp_path: Path) -> None:
    plan = with_secrets(tmp_path)
    shown = json.dumps(dict(plan.variables)) + repr(plan)
    assert [word for word in SECRETS if word in shown] == []
    assert [word for word in SECRETS if word not in json.dumps(dict(plan.secrets))] == []


def test_the_machine_adds_the_secret_and_nobody_else_reads_it(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    path = whole_config(with_secrets(tmp_path), tmp_path / "etc")
    text = path.read_text()
    assert [word for word in SECRETS[:3] if word not in text] == []
    assert (tmp_path / "etc/tls/key.pem").read_text() == SECRETS[3]
    for file in (path, tmp_path / "etc/tls/key.pem"):
        assert file.stat().st_mode & 0o777 == 0o640
    document = yaml.safe_load(text)
    assert document["security"]["tls"] == {
        "cert": "/etc/windlass/tls/cert.pem",
        "key": "/etc/windlass/tls/key.pem",
    }
    assert document["db"]["host"] == "db.internal"


def test_random_passwords_differ() -> None:
    one, other = plan_of("aws").secrets["config"], plan_of("aws").secrets["config"]
    assert one["db"]["password"] != other["db"]["password"]
    assert len(one["security"]["initial_user_password"]) >= 24


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_script_is_a_program_of_sh_and_fits(cloud: str, tmp_path: Path) -> None:
    script = boot_of(plan_of(cloud))
    subprocess.run(["sh", "-n"], input=script.encode(), check=True)
    assert len(script.encode()) < 16 * 1024
    assert MADE["secret"] in script
    assert "${secret}" not in script


def test_what_is_too_large_for_user_data_is_refused_with_the_sizes(tmp_path: Path) -> None:
    large = tmp_path / "master.yaml"
    large.write_text("a: " + "x" * 20_000 + "\n")
    with pytest.raises(InvalidConfig, match="14336 fit"):
        plan_of("aws", master_config_template_path=large)


def test_a_template_is_filled_in_and_what_looks_like_terraform_is_kept() -> None:
    template = "# {{ if }}\na: {{ .text }}\nb: '${HOME} %{if}'\nc: {{.made}}\nd: {{ .map }}\n"
    values = {
        "text": 'a "quoted" ${x}\n',
        "made": from_terraform("bucket"),
        "map": {"script": f"mount {from_terraform('files_host')}:/"},
    }
    read = yaml.safe_load(as_terraform(filled(template, values, "template")))
    assert read == {
        "a": 'a "quoted" ${x}\n',
        "b": "${HOME} %{if}",
        "c": MADE["bucket"],
        "d": {"script": "mount 10.0.0.3:/"},
    }


def test_all_mistakes_of_a_template_are_told_with_their_lines() -> None:
    with pytest.raises(InvalidConfig) as error:
        filled("a: {{ .prot }}\n{{ if .x }}\nb: {{ .port }}\n", {"port": 1}, "template")
    assert error.value.problems == (
        'line 1: "prot" is unknown: did you mean "port"?',
        'line 2: "{{ if .x }}" is not supported: only {{ .name }} is filled in',
    )
    with pytest.raises(InvalidConfig, match="expected a YAML mapping"):
        filled("- 1\n", {}, "template")
    with pytest.raises(InvalidConfig, match="is not YAML"):
        filled("a: [\n", {}, "template")


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_the_printed_template_gives_what_none_gives(cloud: str, tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["deploy", cloud, "dump-master-config-template"]).stdout
    assert printed == template_of(cloud)
    own = tmp_path / "own.yaml"
    own.write_text(printed)
    assert config_of(plan_of(cloud, master_config_template_path=own)) == config_of(plan_of(cloud))
