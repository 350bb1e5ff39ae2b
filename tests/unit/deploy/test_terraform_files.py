"""Our Terraform files, as far as they can be looked at without the clouds' plug-ins."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
import pytest
from hcl2.utils import SerializationOptions

from tests.unit.deploy.test_cloud_rendering import CASES, plan_of
from windlass.deploy.cloud.terraform import copy_modules, modules_of

CLOUDS = ("aws", "gcp")
ROOTS = {cloud: modules_of(cloud) for cloud in CLOUDS}
FOLDERS = sorted({path.parent for root in ROOTS.values() for path in root.rglob("main.tf")})
NOT_KEPT = {"secrets", "delete_data"}
PURE = [folder for folder in FOLDERS if (folder / "tests").is_dir()]


@cache
def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The blocks of all files of a module, by kind."""
    blocks: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.tf")):
        with path.open() as file:
            options = SerializationOptions(strip_string_quotes=True)
            for kind, found in hcl2.load(file, serialization_options=options).items():
                if isinstance(found, list):
                    blocks.setdefault(kind, []).extend(found)
    return blocks


def named(blocks: dict[str, list[dict[str, Any]]], kind: str) -> dict[str, dict[str, Any]]:
    return {name: body for block in blocks.get(kind, []) for name, body in block.items()}


def resources(kind: str, cloud: str) -> Iterator[dict[str, Any]]:
    for folder in FOLDERS:
        if ROOTS[cloud] in (folder, *folder.parents):
            for block in read(folder).get("resource", []):
                yield from block.get(kind, {}).values()


def text_of(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.tf")))


def ids(folder: Path) -> str:
    return str(folder.relative_to(ROOTS["aws"].parent))


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=ids)
def test_variables_and_outputs_are_described_and_used(folder: Path) -> None:
    blocks = read(folder)
    variables, outputs = named(blocks, "variable"), named(blocks, "output")
    text = text_of(folder)
    for name, body in {**variables, **outputs}.items():
        assert body.get("description"), name
    assert set(re.findall(r"\bvar\.(\w+)", text)) == set(variables)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_modules_are_given_what_they_declare_and_asked_for_what_they_have(cloud: str) -> None:
    blocks, text = read(ROOTS[cloud]), text_of(ROOTS[cloud])
    own = {"source", "count", "depends_on", "for_each", "providers"}
    modules = named(blocks, "module")
    assert {folder.name for folder in (ROOTS[cloud] / "modules").iterdir()} == set(modules)
    for name, body in modules.items():
        inner = read(ROOTS[cloud] / body["source"])
        given = {key for key in body if not key.startswith("__")} - own
        assert given == set(named(inner, "variable")), name
        asked = set(re.findall(rf"module\.{name}(?:\[[^]]\])?\.(\w+)", text))
        asked |= set(re.findall(rf"module\.{name}\[\*\]\.(\w+)", text))
        assert asked <= set(named(inner, "output")), name


@pytest.mark.parametrize(("cloud", "given"), CASES)
def test_a_plan_gives_the_variables_that_the_root_declares(cloud: str, given: Any) -> None:
    variables = named(read(ROOTS[cloud]), "variable")
    kept = {*plan_of(cloud, **given).variables, "secrets_version"}
    assert kept | NOT_KEPT == set(variables)


@pytest.mark.parametrize(("cloud", "given"), CASES)
def test_the_script_names_only_what_terraform_fills_in(cloud: str, given: Any) -> None:
    script = plan_of(cloud, **given).variables["master_boot"]
    wanted = set(re.findall(r"(?<!\$)\$\{(\w+)\}", script))
    values = named(read(ROOTS[cloud]), "module")["boot"]["values"]
    assert wanted <= set(values)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_a_later_down_needs_is_in_the_state(cloud: str) -> None:
    blocks = read(ROOTS[cloud])
    inputs = set(named(blocks, "output")["inputs"]["value"])
    assert inputs | NOT_KEPT == set(named(blocks, "variable"))


TAGGED = {
    *("aws_db_instance", "aws_db_subnet_group", "aws_default_security_group", "aws_ebs_volume"),
    *("aws_efs_file_system", "aws_eip", "aws_fsx_lustre_file_system", "aws_iam_instance_profile"),
    *("aws_iam_role", "aws_instance", "aws_internet_gateway", "aws_nat_gateway", "aws_route_table"),
    *("aws_s3_bucket", "aws_secretsmanager_secret", "aws_security_group", "aws_subnet", "aws_vpc"),
    *("aws_vpc_endpoint", "aws_vpc_security_group_egress_rule"),
    "aws_vpc_security_group_ingress_rule",
    *("google_compute_address", "google_compute_disk", "google_compute_global_address"),
    *("google_compute_instance", "google_filestore_instance", "google_secret_manager_secret"),
    "google_storage_bucket",
}
"""Those with an argument for tags, which the provider fills with the cluster's."""
TAGGED_INSIDE = {"google_sql_database_instance"}
"""By labels of a part."""
UNTAGGABLE = {
    # Parts and attachments of other resources.
    *("aws_efs_mount_target", "aws_eip_association", "aws_iam_role_policy", "aws_route"),
    *("aws_route_table_association", "aws_s3_bucket_lifecycle_configuration"),
    *("aws_s3_bucket_policy", "aws_s3_bucket_public_access_block"),
    *("aws_s3_bucket_server_side_encryption_configuration", "aws_secretsmanager_secret_version"),
    "aws_volume_attachment",
    *(
        "google_compute_router_nat",
        "google_project_iam_member",
        "google_secret_manager_secret_iam_member",
    ),
    *("google_secret_manager_secret_version", "google_service_account_iam_member"),
    *("google_service_networking_connection", "google_sql_database", "google_sql_user"),
    "google_storage_bucket_iam_member",
    # Google has no labels for these; the cluster's name is in theirs.
    *("google_compute_firewall", "google_compute_network", "google_compute_router"),
    *("google_compute_subnetwork", "google_project_iam_custom_role", "google_service_account"),
    # Of Terraform itself.
    "terraform_data",
}
"""Without an argument for tags: `test_terraform_scans` holds all three against the plug-ins' schemas."""


def test_every_kind_of_resource_carries_the_tags_or_has_none() -> None:
    kinds = {
        kind
        for folder in FOLDERS
        for block in read(folder).get("resource", [])
        for kind in block
        if not kind.startswith("__")
    }
    assert kinds == TAGGED | TAGGED_INSIDE | UNTAGGABLE


def test_everything_carries_the_tags_of_the_cluster() -> None:
    aws, gcp = (named(read(ROOTS[cloud]), "provider") for cloud in CLOUDS)
    assert aws["aws"]["default_tags"][0]["tags"] == "${var.tags}"
    assert gcp["google"]["default_labels"] == "${var.labels}"
    for instance in resources("aws_instance", "aws"):
        assert "var.tags" in instance["root_block_device"][0]["tags"]
    for machine in resources("google_compute_instance", "gcp"):
        assert machine["boot_disk"][0]["initialize_params"][0]["labels"] == "${var.labels}"
    for database in resources("google_sql_database_instance", "gcp"):
        assert database["settings"][0]["user_labels"] == "${var.labels}"


def test_disks_and_databases_are_encrypted_and_metadata_needs_a_token() -> None:
    machines = list(resources("aws_instance", "aws"))
    assert len(machines) == 2
    for machine in machines:
        assert machine["metadata_options"][0]["http_tokens"] == "required"
        assert machine["root_block_device"][0]["encrypted"] in (True, "true")
    stored = {
        "aws_ebs_volume": "encrypted",
        "aws_db_instance": "storage_encrypted",
        "aws_efs_file_system": "encrypted",
    }
    for kind, key in stored.items():
        assert [one[key] in (True, "true") for one in resources(kind, "aws")] == [True], kind


def test_nothing_is_open_to_everybody_but_what_the_options_say() -> None:
    for rule in resources("aws_vpc_security_group_ingress_rule", "aws"):
        assert rule.get("cidr_ipv4") in (None, "${var.inbound_cidr}", "${var.ssh_cidr}")
    for rule in resources("google_compute_firewall", "gcp"):
        ranges = rule.get("source_ranges") or []
        assert ranges in ([], ["${var.inbound_cidr}"], ["${var.ssh_cidr}"])
    for cloud in CLOUDS:
        variable = named(read(ROOTS[cloud]), "variable")["ssh_cidr"]
        assert "0.0.0.0/0" in variable["validation"][0]["condition"]


def test_no_role_may_do_everything() -> None:
    documents = [
        statement
        for folder in FOLDERS
        for block in read(folder).get("data", [])
        for body in block.get("aws_iam_policy_document", {}).values()
        for statement in body.get("statement", [])
    ]
    allowed = [each for each in documents if each.get("effect") != "Deny"]
    assert len(allowed) >= 4
    assert not [action for each in allowed for action in each["actions"] if "*" in action]
    for member in resources("google_project_iam_member", "gcp"):
        assert member["role"] == "${google_project_iam_custom_role.master.id}"


def test_no_data_is_deleted_unasked() -> None:
    (bucket,) = resources("aws_s3_bucket", "aws")
    (database,) = resources("aws_db_instance", "aws")
    (disk,) = resources("aws_ebs_volume", "aws")
    (storage,) = resources("google_storage_bucket", "gcp")
    (sql,) = resources("google_sql_database_instance", "gcp")
    assert bucket["force_destroy"] == storage["force_destroy"] == "${var.delete_data}"
    assert database["skip_final_snapshot"] == "${var.delete_data}"
    assert database["deletion_protection"] == sql["deletion_protection"] == "${!var.delete_data}"
    assert disk["final_snapshot"] == "${!var.delete_data}"


def test_no_password_is_kept_in_the_state() -> None:
    for cloud in CLOUDS:
        secrets = named(read(ROOTS[cloud]), "variable")["secrets"]
        assert secrets["ephemeral"] in (True, "true")
        assert secrets["sensitive"] in (True, "true")
    text = "".join(text_of(folder) for folder in FOLDERS)
    # Only arguments that are written and never read take it.
    users = re.findall(r"^\s*(\w+)\s*=\s*var\.(?:secrets|password)\b$", text, re.MULTILINE)
    assert set(users) == {"secrets", "secret_string_wo", "secret_data_wo", "password_wo"}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_plug_ins_have_versions(cloud: str) -> None:
    (terraform,) = read(ROOTS[cloud])["terraform"]
    for needed in terraform["required_providers"]:
        for name, body in needed.items():
            if not name.startswith("__"):
                assert re.fullmatch(r"~> \d+\.0", body["version"])


def test_modules_of_another_release_are_replaced_and_the_state_stays(tmp_path: Path) -> None:
    (tmp_path / "modules" / "old").mkdir(parents=True)
    (tmp_path / "terraform.tfstate").write_text("{}")
    copy_modules(ROOTS["aws"], tmp_path)
    assert (tmp_path / "main.tf").read_text() == (ROOTS["aws"] / "main.tf").read_text()
    assert (tmp_path / "modules/boot/main.tf").exists()
    assert not (tmp_path / "modules/old").exists()
    assert not (tmp_path / "modules/boot/tests").exists()
    assert (tmp_path / "terraform.tfstate").read_text() == "{}"


def terraform() -> str:
    found = shutil.which("terraform")
    if found is None:
        pytest.skip("terraform is not on PATH: its files are only parsed")
    return found


def test_files_are_formatted() -> None:
    command = [terraform(), "fmt", "-check", "-recursive", str(ROOTS["aws"].parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("folder", PURE, ids=ids)
def test_modules_without_plug_ins_do_what_they_say(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "module"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".terraform*"))
    for verb in (["init", "-input=false"], ["validate"], ["test"]):
        done = subprocess.run(
            [terraform(), *verb, "-no-color"], cwd=copy, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
