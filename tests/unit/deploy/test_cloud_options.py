"""Options of `det deploy aws up` and `gcp up`: each published one has an effect, or says why not, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from windlass.base.errors import InvalidConfig
from windlass.base.no_effect import mark_of
from windlass.cli.deploy.model_options import command_of
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.plan import aws_plan
from windlass.deploy.cloud.aws.preflight import checked_types
from windlass.deploy.cloud.gcp.options import GcpOptions
from windlass.deploy.cloud.gcp.plan import gcp_plan
from windlass.deploy.cloud.options import CommonOptions
from windlass.deploy.cloud.parsing import parse, warnings

AWS: Mapping[str, Any] = {"cluster_id": "lab", "region": "us-west-2", "db_password": "p" * 12}
GCP: Mapping[str, Any] = {"cluster_id": "lab", "project_id": "my-project", "db_password": "p" * 12}


def aws(**given: Any) -> AwsOptions:
    return parse(AwsOptions, {**AWS, **given}, "options")


def gcp(**given: Any) -> GcpOptions:
    return parse(GcpOptions, {**GCP, **given}, "options")


def problems(model: type[CommonOptions], **given: Any) -> list[str]:
    base = AWS if model is AwsOptions else GCP
    with pytest.raises(InvalidConfig) as error:
        parse(model, {**base, **given}, "options")
    return list(error.value.problems)


def product(options: AwsOptions | GcpOptions) -> str:
    """Everything that is made of options, as one text."""
    plan = aws_plan(options, ()) if isinstance(options, AwsOptions) else gcp_plan(options, ())
    return repr((plan.variables, plan.secrets, dict(plan.environment), plan.state_bucket))


AWS_EFFECTS: list[tuple[str, Any, Mapping[str, Any]]] = [
    # option, value, what else is given in both cases
    ("cluster_id", "other", {}),
    ("region", "eu-west-1", {}),
    ("profile", "work", {}),
    ("keypair", "mine", {}),
    ("deployment_type", "efs", {}),
    ("deployment_type", "fsx", {}),
    ("deployment_type", "secure", {"keypair": "k", "inbound_cidr": "10.1.0.0/16"}),
    ("master_instance_type", "m5.large", {}),
    ("aux_agent_instance_type", "m5.large", {}),
    ("compute_agent_instance_type", "p3.2xlarge", {}),
    ("compute_agent_slots", "2", {}),
    ("inbound_cidr", "203.0.113.0/24", {}),
    ("agent_subnet_id", ["subnet-0a1b"], {}),
    ("db_password", "longer-password", {}),
    ("db_instance_type", "db.t4g.small", {}),
    ("db_size", "30", {}),
    ("db_snapshot", "before", {}),
    ("max_idle_agent_period", "7m", {}),
    ("max_agent_starting_period", "8m", {}),
    ("min_dynamic_agents", "1", {}),
    ("max_dynamic_agents", "9", {}),
    ("max_aux_containers_per_agent", "3", {}),
    ("spot", True, {}),
    ("spot_max_price", "1.25", {"spot": True}),
    ("scheduler_type", "priority", {}),
    ("preemption_enabled", "true", {"scheduler_type": "priority"}),
    ("cpu_env_image", "cpu:2", {"cpu_env_image": "cpu:1", "gpu_env_image": "gpu:1"}),
    ("gpu_env_image", "gpu:2", {"cpu_env_image": "cpu:1", "gpu_env_image": "gpu:1"}),
    ("master_cert_name", "master.lab", {"master_tls_cert": "CERT", "master_tls_key": "KEY"}),
    ("master_config_template_path", "TEMPLATE", {}),
    ("efs_id", "fs-0a1b", {"deployment_type": "efs"}),
    ("fsx_id", "fs-0a1b", {"deployment_type": "fsx"}),
    ("fsx_mount_name", "fsx12", {"deployment_type": "fsx", "fsx_id": "fs-0a1b"}),
    ("shut_down_agents_on_connection_loss", False, {}),
    ("add_tag", ["team=vision"], {}),
    ("initial_user_password", "secret-word", {}),
    ("notebook_timeout", "60", {}),
    ("enable_cors", True, {}),
    ("docker_user", "me", {"docker_user": "you", "docker_pass": "word"}),
    ("docker_pass", "other", {"docker_user": "me", "docker_pass": "word"}),
    ("port", "9443", {}),
    ("tls", False, {}),
    ("database", "local", {"db_password": None}),
    ("package", "https://host/w.whl", {}),
    ("tf_state_bucket", "states", {}),
]
GCP_EFFECTS: list[tuple[str, Any, Mapping[str, Any]]] = [
    ("cluster_id", "other", {}),
    ("project_id", "other-project", {}),
    ("keypath", "KEY", {}),
    ("network", "mine", {}),
    ("filestore_address", "10.0.0.2:/share", {}),
    ("no_filestore", True, {}),
    ("region", "us-east1", {}),
    ("zone", "us-west1-c", {}),
    ("disk_size", "300", {}),
    ("disk_type", "pd-ssd", {}),
    ("environment_image", "projects/p/global/images/i", {}),
    ("tf_state_gcs_bucket_name", "states", {}),
    ("preemptible", "true", {}),
    ("operation_timeout_period", "9m", {}),
    ("master_instance_type", "n2-standard-4", {}),
    ("aux_agent_instance_type", "n1-standard-2", {}),
    ("compute_agent_instance_type", "n1-standard-16", {}),
    ("gpu_type", "nvidia-tesla-v100", {}),
    ("gpu_num", "2", {}),
    ("min_dynamic_agents", "1", {}),
    ("max_dynamic_agents", "9", {}),
    ("max_idle_agent_period", "7m", {}),
    ("max_agent_starting_period", "8m", {}),
    ("max_aux_containers_per_agent", "3", {}),
    ("min_cpu_platform_master", "Intel Ice Lake", {}),
    ("min_cpu_platform_agent", "Intel Ice Lake", {}),
    ("port", "9443", {}),
    ("db_password", "longer-password", {}),
    ("scheduler_type", "priority", {}),
    ("preemption_enabled", "true", {"scheduler_type": "priority"}),
    ("cpu_env_image", "cpu:2", {"cpu_env_image": "cpu:1", "gpu_env_image": "gpu:1"}),
    ("gpu_env_image", "gpu:2", {"cpu_env_image": "cpu:1", "gpu_env_image": "gpu:1"}),
    ("master_config_template_path", "TEMPLATE", {}),
    ("initial_user_password", "secret-word", {}),
    ("add_label", ["team=vision"], {}),
    ("inbound_cidr", "203.0.113.0/24", {}),
    ("tls", False, {}),
    ("database", "local", {"db_password": None}),
    ("package", "https://host/w.whl", {}),
]
OF_THE_COMMAND = {
    *("local_state_path", "yes", "det_version", "dry_run", "update_terminate_agents"),
    *("master_tls_cert", "master_tls_key"),
}
"""Not in what is made: where state is, whether to ask, and what is shown by `master_cert_name` above."""


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, Path]:
    made = {name: tmp_path / name for name in ("CERT", "KEY", "TEMPLATE")}
    for name, path in made.items():
        path.write_text("port: 1\n" if name == "TEMPLATE" else name)
    return made


@pytest.mark.parametrize(
    ("name", "value", "beside"),
    [
        *(pytest.param(*row, id=f"aws-{row[0]}-{row[1]}") for row in AWS_EFFECTS),
        *(pytest.param(*row, id=f"gcp-{row[0]}-{row[1]}") for row in GCP_EFFECTS),
    ],
)
def test_an_option_has_an_effect(
    name: str,
    value: Any,
    beside: Mapping[str, Any],
    files: Mapping[str, Path],
    request: pytest.FixtureRequest,
) -> None:
    read = aws if request.node.callspec.id.startswith("aws") else gcp
    steady = {"initial_user_password": "the-same-word"}
    with_files = {
        k: files.get(v, v) if isinstance(v, str) else v for k, v in {**steady, **beside}.items()
    }
    before = product(read(**with_files))
    now = files.get(value, value) if isinstance(value, str) else value
    assert product(read(**{**with_files, name: now})) != before


@pytest.mark.parametrize(
    ("model", "effects"), [(AwsOptions, AWS_EFFECTS), (GcpOptions, GCP_EFFECTS)]
)
def test_every_option_has_an_effect_or_says_why_not(
    model: type[CommonOptions], effects: list[tuple[str, Any, Any]]
) -> None:
    without = {name for name, field in model.model_fields.items() if mark_of(field)}
    assert {row[0] for row in effects} | without | OF_THE_COMMAND >= set(model.model_fields)
    assert not without & {row[0] for row in effects}


PUBLISHED_AWS = (
    "cluster-id keypair region profile add-tag master-instance-type enable-cors master-tls-cert master-tls-key "
    "master-cert-name compute-agent-instance-type gpu-agent-instance-type aux-agent-instance-type "
    "cpu-agent-instance-type deployment-type inbound-cidr agent-subnet-id det-version db-password db-snapshot "
    "db-instance-type db-size max-idle-agent-period max-agent-starting-period max-aux-containers-per-agent "
    "max-cpu-containers-per-agent min-dynamic-agents max-dynamic-agents spot spot-max-price scheduler-type "
    "preemption-enabled cpu-env-image gpu-env-image log-group-prefix retain-log-group master-config-template-path "
    "efs-id fsx-id agent-reattach-enabled agent-reconnect-attempts agent-reconnect-backoff "
    "shut-down-agents-on-connection-loss no-shut-down-agents-on-connection-loss update-terminate-agents "
    "no-update-terminate-agents yes no-prompt enterprise-edition docker-user docker-pass notebook-timeout "
    "genai-version genai-shared-fs-mount-path initial-user-password"
)
PUBLISHED_GCP = (
    "cluster-id project-id dry-run keypath network filestore-address no-filestore det-version region zone disk-size "
    "disk-type environment-image local-state-path preemptible operation-timeout-period master-instance-type "
    "compute-agent-instance-type gpu-agent-instance-type aux-agent-instance-type cpu-agent-instance-type db-password "
    "max-aux-containers-per-agent max-cpu-containers-per-agent max-idle-agent-period max-agent-starting-period port "
    "gpu-type gpu-num min-dynamic-agents max-dynamic-agents min-cpu-platform-master min-cpu-platform-agent "
    "scheduler-type preemption-enabled cpu-env-image gpu-env-image master-config-template-path "
    "tf-state-gcs-bucket-name add-label initial-user-password"
)


@pytest.mark.parametrize(
    ("model", "published"), [(AwsOptions, PUBLISHED_AWS), (GcpOptions, PUBLISHED_GCP)]
)
def test_every_published_option_is_known(model: type[CommonOptions], published: str) -> None:
    app = typer.Typer()
    app.command()(command_of(model, lambda _ctx, _given: None, "Make a cluster."))
    parameters = typer.main.get_command(app).params
    names = {one for each in parameters for one in (*each.opts, *each.secondary_opts)}
    assert {f"--{name}" for name in published.split()} - names == set()


AWS_DEFAULTS: Mapping[str, Any] = {
    "deployment_type": "simple-rds",
    "master_instance_type": "m6i.large",
    "aux_agent_instance_type": "m5.xlarge",
    "compute_agent_instance_type": "g4dn.xlarge",
    "inbound_cidr": "0.0.0.0/0",
    "agent_subnet_id": (),
    "db_instance_type": "db.m7g.large",
    "db_size": 20,
    "db_snapshot": "",
    "max_agent_starting_period": timedelta(minutes=20),
    "min_dynamic_agents": 0,
    "max_dynamic_agents": 5,
    "max_aux_containers_per_agent": 16,
    "spot": False,
    "spot_max_price": "",
    "scheduler_type": "fair_share",
    "preemption_enabled": False,
    "cpu_env_image": "",
    "gpu_env_image": "",
    "master_tls_cert": None,
    "master_tls_key": None,
    "master_cert_name": "",
    "master_config_template_path": None,
    "efs_id": "",
    "fsx_id": "",
    "log_group_prefix": "determined",
    "retain_log_group": False,
    "agent_reattach_enabled": False,
    "agent_reconnect_attempts": 5,
    "agent_reconnect_backoff": 5,
    "shut_down_agents_on_connection_loss": True,
    "add_tag": (),
    "initial_user_password": "",
    "notebook_timeout": None,
    "enable_cors": False,
    "docker_user": "",
    "docker_pass": "",
    "yes": False,
}
GCP_DEFAULTS: Mapping[str, Any] = {
    "dry_run": False,
    "keypath": None,
    "network": "det-default",
    "filestore_address": "",
    "no_filestore": False,
    "region": "us-west1",
    "effective_zone": "us-west1-b",
    "disk_size": 200,
    "disk_type": "pd-standard",
    "preemptible": False,
    "operation_timeout_period": timedelta(minutes=5),
    "master_instance_type": "n1-standard-2",
    "aux_agent_instance_type": "n1-standard-4",
    "compute_agent_instance_type": "n1-standard-32",
    "gpu_type": "nvidia-tesla-t4",
    "gpu_num": 4,
    "min_dynamic_agents": 0,
    "max_dynamic_agents": 5,
    "max_agent_starting_period": timedelta(minutes=20),
    "max_aux_containers_per_agent": 16,
    "min_cpu_platform_master": "Intel Skylake",
    "min_cpu_platform_agent": "Intel Broadwell",
    "scheduler_type": "fair_share",
    "preemption_enabled": False,
    "add_label": (),
}
OTHER_THAN_PUBLISHED: Mapping[str, tuple[Any, str]] = {
    "max_idle_agent_period": (timedelta(minutes=5), "the mission says 5 minutes, not 10"),
    "update_terminate_agents": (False, "machines and their work go on; published: true"),
    "db_password": ("", "a random one; published: postgres"),
    "port": (None, "8443 with TLS, which is on; published: 8080"),
    "tf_state_gcs_bucket_name": (
        "",
        "a folder; published: PROJECT-determined-deploy, made unasked",
    ),
    "local_state_path": (None, "a folder of the user; published: the current folder"),
    "keypair": ("", "nobody logs in by SSH; published: required"),
}
"""Weak, or needed by nobody: with why."""


@pytest.mark.parametrize(
    ("options", "defaults"),
    [(parse(AwsOptions, AWS, "o"), AWS_DEFAULTS), (parse(GcpOptions, GCP, "o"), GCP_DEFAULTS)],
)
def test_defaults_are_the_published_ones_unless_those_are_weak(
    options: CommonOptions, defaults: Mapping[str, Any]
) -> None:
    assert {name: getattr(options, name) for name in defaults} == dict(defaults)
    others = {k: v for k, (v, _) in OTHER_THAN_PUBLISHED.items() if k in type(options).model_fields}
    fields = type(options).model_fields
    assert {name: fields[name].default for name in others} == others


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("cluster_id", "1lab", "must begin with a letter"),
        ("cluster_id", "a" * 41, "40 at most"),
        ("region", "us-west-9", 'did you mean "us-west-2"?'),
        ("deployment_type", "simple", 'did you mean "simple-rds"?'),
        ("deployment_type", "genai", "efs makes the same network"),
        ("deployment_type", "govcloud", "us-gov-east-1 or us-gov-west-1"),
        ("deployment_type", "secure", None),
        ("master_instance_type", "m6i.lagre", 'did you mean "m6i.large"?'),
        ("aux_agent_instance_type", "m5", "FAMILY.SIZE"),
        ("inbound_cidr", "203.0.113.7/24", 'did you mean "203.0.113.0/24"?'),
        ("inbound_cidr", "everybody", "such as 203.0.113.0/24"),
        ("agent_subnet_id", ["net-1"], "subnet-0a1b2c3d"),
        ("db_password", "short", "8 to 128"),
        ("db_size", "19", "at least 20"),
        ("db_size", "many", "a whole number"),
        ("db_instance_type", "m7g.large", "db.m7g.large"),
        ("max_idle_agent_period", "10", '"5m"'),
        ("max_idle_agent_period", "0s", "longer than 0s"),
        ("min_dynamic_agents", "-1", "at least 0"),
        ("min_dynamic_agents", "6", "--max-dynamic-agents 5"),
        ("max_dynamic_agents", "0", "at least 1"),
        ("spot_max_price", "1.2.3", "such as 1.25"),
        ("spot_max_price", "1.2", "goes with --spot"),
        ("scheduler_type", "fairshare", 'did you mean "fair_share"?'),
        ("preemption_enabled", "maybe", "true or false"),
        ("preemption_enabled", "true", "--scheduler-type priority"),
        ("cpu_env_image", "image", "give both, or neither"),
        ("master_config_template_path", "/nowhere", "no such file"),
        ("master_tls_cert", "/nowhere", "no such file"),
        ("master_cert_name", "master.lab", "goes with --master-tls-cert"),
        ("efs_id", "fs-1", "--deployment-type efs"),
        ("fsx_id", "fs-1", "--deployment-type fsx"),
        ("fsx_mount_name", "fsx1", "goes with --fsx-id"),
        ("add_tag", ["team"], "KEY=VALUE"),
        ("add_tag", ["a=1", "a=2"], "given twice"),
        ("add_tag", ["managed-by=me"], "reserved"),
        ("docker_user", "me", "--docker-pass"),
        ("notebook_timeout", "0", "at least 1"),
        ("port", "70000", "at most 65535"),
        ("database", "rds", "use one of local, managed"),
    ],
)
def test_what_aws_refuses_says_the_way_out(name: str, value: Any, way_out: str | None) -> None:
    found = problems(AwsOptions, **{name: value})
    if way_out is None:
        assert [line.split(":")[0] for line in found] == ["--keypair", "--inbound-cidr"]
        return
    assert len(found) <= 2
    assert any(way_out in line for line in found), found


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("cluster_id", "Lab", "small letter"),
        ("cluster_id", "a" * 36, "at most 35"),
        ("project_id", "p", "the id of a project"),
        ("region", "us-wets1", 'did you mean "us-west1"?'),
        ("zone", "us-east1-b", 'did you mean "us-west1-b"?'),
        ("disk_size", "50", "at least 100"),
        ("disk_type", "pd-sdd", 'did you mean "pd-ssd"?'),
        ("compute_agent_instance_type", "n1standard", "like n1-standard-4"),
        ("compute_agent_instance_type", "n11-standard-4", 'did you mean "n1-standard-4"?'),
        ("gpu_type", "nvidia-tesla-t5", 'did you mean "nvidia-tesla-t4"?'),
        ("gpu_num", "3", "0, 1, 2, 4 of nvidia-tesla-t4"),
        ("filestore_address", "10.0.0.2", "10.0.0.2:/share"),
        ("add_label", ["Team=a"], "small letters"),
        ("add_label", ["managed-by=me"], "reserved"),
        ("keypath", "/nowhere", "no such file"),
        ("preemptible", "sometimes", "true or false"),
    ],
)
def test_what_gcp_refuses_says_the_way_out(name: str, value: Any, way_out: str) -> None:
    (line,) = problems(GcpOptions, **{name: value})
    assert line.startswith("--" + name.replace("_", "-"))
    assert way_out in line


def test_ten_mistakes_are_told_at_once() -> None:
    wrong = {
        "cluster_id": "1",
        "region": "mars-1",
        "master_instance_type": "huge",
        "inbound_cidr": "all",
        "db_size": "1",
        "max_idle_agent_period": "soon",
        "max_dynamic_agents": "none",
        "scheduler_type": "fair",
        "docker_user": "me",
        "cpu_env_image": "one",
        "efs_id": "fs-1",
    }
    found = problems(AwsOptions, **wrong)
    assert len(found) == len(wrong)


def test_types_that_the_master_would_refuse_are_refused_before_it_is_made() -> None:
    assert checked_types(aws()) is not None
    with pytest.raises(InvalidConfig) as error:
        checked_types(
            aws(aux_agent_instance_type="m5.9xlarge", compute_agent_instance_type="g9.xlarge")
        )
    first, second = error.value.problems
    assert first.startswith(
        "--aux-agent-instance-type: the master does not know m5.9xlarge: did you"
    )
    assert second.endswith("if AWS has it, give its GPUs with --compute-agent-slots")
    with pytest.raises(InvalidConfig, match="has Arm processors"):
        checked_types(aws(compute_agent_instance_type="g5g.xlarge"))
    checked_types(aws(compute_agent_instance_type="g5g.xlarge", compute_agent_slots="1"))
    with pytest.raises(InvalidConfig, match=r"trn1\.2xlarge has AWS Neuron devices"):
        checked_types(aws(compute_agent_instance_type="trn1.2xlarge", compute_agent_slots="1"))


def test_missing_ones_are_named() -> None:
    with pytest.raises(InvalidConfig) as error:
        parse(AwsOptions, {}, "options of det deploy aws up")
    assert error.value.problems == ("--cluster-id: is missing", "--region: is missing")


def test_a_password_is_not_repeated_by_what_refuses_it() -> None:
    found = problems(AwsOptions, db_password="hunter2", docker_pass="hunter3")
    assert "hunter" not in repr(found)
    assert "hunter" not in repr(aws(docker_user="me", docker_pass="hunter34"))


def test_options_without_effect_are_warned_about_when_given() -> None:
    given = {**AWS, "log_group_prefix": "x", "agent_reconnect_attempts": "9"}
    told = list(warnings(parse(AwsOptions, given, "options"), given))
    assert [line.split(" has no effect: ")[0] for line in told] == [
        "--log-group-prefix",
        "--agent-reconnect-attempts",
    ]
    assert list(warnings(aws(), AWS)) == []


def test_ssh_is_never_open_to_everybody() -> None:
    assert aws_plan(aws(keypair="k"), ()).variables["ssh_cidr"] == ""
    assert aws_plan(aws(inbound_cidr="10.0.0.0/8"), ()).variables["ssh_cidr"] == ""
    narrow = aws(keypair="k", inbound_cidr="10.0.0.0/8")
    assert aws_plan(narrow, ()).variables["ssh_cidr"] == "10.0.0.0/8"
    assert gcp_plan(gcp(), ()).variables["ssh_cidr"] == ""
