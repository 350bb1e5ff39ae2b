"""The least-privilege policies, from the calls that providers declare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from provisioner.providers.aws import permissions as aws_permissions
from provisioner.providers.gcp import permissions as gcp_permissions
from windlass.base.permissions import Permission, Reach
from windlass.cli.main import app
from windlass.deploy.cloud.aws.policy import aws_policy
from windlass.deploy.cloud.gcp.plan import gcp_role
from windlass.deploy.cloud.tables import ALWAYS, declared, needed

TAG = ("det-lab", "det-agent-lab")


def test_the_tables_of_the_providers_are_found() -> None:
    assert declared("aws") == aws_permissions.PERMISSIONS
    assert declared("gcp") == gcp_permissions.PERMISSIONS


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_table_names_each_action_once(cloud: str) -> None:
    actions = [each.action for each in declared(cloud)]
    assert len(set(actions)) == len(actions)
    assert all(each.why for each in declared(cloud))


def test_the_policy_of_aws_has_exactly_the_declared_actions_and_none_on_all_machines() -> None:
    permissions = needed(declared("aws"))
    policy = aws_policy(permissions, cluster_id="lab", region="us-west-2", tag=TAG)
    statements = {each["Sid"]: each for each in policy["Statement"]}
    actions = {action for each in policy["Statement"] for action in each["Action"]}
    assert actions == {each.action for each in permissions}
    assert not any("*" in action for action in actions)
    assert all("Condition" in each for each in policy["Statement"])
    own = statements["OwnMachines"]
    assert own["Action"] == ["ec2:GetConsoleOutput", "ec2:TerminateInstances"]
    assert own["Condition"] == {"StringEquals": {"aws:ResourceTag/det-lab": "det-agent-lab"}}
    launch = statements["LaunchOwnMachines"]
    assert launch["Condition"] == {"StringEquals": {"aws:RequestTag/det-lab": "det-agent-lab"}}
    assert statements["Launch"]["NotResource"] == launch["Resource"]
    assert statements["AgentRole"]["Resource"] == "arn:aws:iam::*:role/det-lab-agent"


def test_gov_regions_have_their_partition() -> None:
    (one,) = aws_policy(
        [Permission(action="iam:PassRole", why="", reach=Reach.AGENT_ROLE)],
        cluster_id="lab",
        region="us-gov-west-1",
        tag=TAG,
    )["Statement"]
    assert one["Resource"].startswith("arn:aws-us-gov:iam")


def test_what_only_a_feature_needs_is_left_out() -> None:
    names = {each.action for each in needed(declared("aws"))}
    assert "sqs:ReceiveMessage" not in names
    with_queue = {each.action for each in needed(declared("aws"), ["interruption_queue"])}
    assert with_queue - names == {"sqs:ReceiveMessage", "sqs:DeleteMessage"}


def test_what_is_made_may_be_tagged_by_the_call_that_makes_it() -> None:
    def calls(*features: str) -> list[str]:
        permissions = needed(declared("aws"), features)
        policy = aws_policy(permissions, cluster_id="lab", region="us-west-2", tag=TAG)
        (tagging,) = [x for x in policy["Statement"] if x["Action"] == ["ec2:CreateTags"]]
        made: list[str] = tagging["Condition"]["StringEquals"]["ec2:CreateAction"]
        return made

    assert calls() == ["RunInstances"]
    assert calls("placement_group") == ["RunInstances", "CreatePlacementGroup"]


def test_only_images_of_own_machines_are_made_and_removed() -> None:
    permissions = needed(declared("aws"), ["bake"])
    policy = aws_policy(permissions, cluster_id="lab", region="us-west-2", tag=TAG)
    statements = {each["Sid"]: each for each in policy["Statement"]}
    images = [f"arn:aws:ec2:us-west-2:*:{kind}/*" for kind in ("image", "snapshot")]
    made, of_machines = statements["MakeImage"], statements["ImagesOfOwnMachines"]
    assert made["Resource"] == statements["OwnImages"]["Resource"] == images
    assert made["Condition"] == {"StringEquals": {"aws:RequestTag/det-lab": "det-agent-lab"}}
    assert of_machines["Resource"] == "arn:aws:ec2:us-west-2:*:instance/*"
    assert of_machines["Condition"] == {
        "StringEquals": {"aws:ResourceTag/det-lab": "det-agent-lab"}
    }
    assert statements["OwnImages"]["Condition"] == of_machines["Condition"]
    assert statements["OwnImages"]["Action"] == ["ec2:DeleteSnapshot", "ec2:DeregisterImage"]


def test_ec2_may_make_its_role_for_spot_and_use_keys_for_disks_and_nothing_more() -> None:
    permissions = needed(declared("aws"), ALWAYS)
    policy = aws_policy(permissions, cluster_id="lab", region="us-west-2", tag=TAG)
    statements = {each["Sid"]: each for each in policy["Statement"]}
    spot, keys, grants = (statements[x] for x in ("SpotRole", "VolumeKeys", "VolumeGrants"))
    assert spot["Action"] == ["iam:CreateServiceLinkedRole"]
    assert spot["Resource"].endswith("/spot.amazonaws.com/AWSServiceRoleForEC2Spot")
    assert spot["Condition"] == {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}}
    by_ec2 = {"kms:ViaService": "ec2.us-west-2.amazonaws.com"}
    assert keys["Condition"] == {"StringEquals": by_ec2}
    assert "kms:CreateGrant" not in keys["Action"]
    assert grants["Action"] == ["kms:CreateGrant"]
    assert grants["Condition"] == {
        "StringEquals": by_ec2,
        "Bool": {"kms:GrantIsForAWSResource": "true"},
    }


def test_the_price_list_is_in_one_region_for_all() -> None:
    permissions = needed(declared("aws"), ["price_refresh"])
    policy = aws_policy(permissions, cluster_id="lab", region="us-west-2", tag=TAG)
    (found,) = [x for x in policy["Statement"] if x["Action"] == ["pricing:GetProducts"]]
    assert "Condition" not in found


def test_the_role_of_gcp_leaves_the_account_to_its_own_grant() -> None:
    role = gcp_role(needed(declared("gcp")), cluster_id="lab")
    assert "iam.serviceAccounts.actAs" not in role["includedPermissions"]
    assert "compute.instances.delete" in role["includedPermissions"]
    assert not any("*" in each for each in role["includedPermissions"])


def test_the_command_prints_it() -> None:
    given = ["deploy", "aws", "iam-policy", "--cluster-id", "lab", "--region", "us-west-2"]
    result = CliRunner().invoke(app, given)
    assert json.loads(result.stdout)["Version"] == "2012-10-17"
    given = ["deploy", "gcp", "iam-policy", "--cluster-id", "lab", "--project-id", "my-project"]
    assert "includedPermissions" in json.loads(CliRunner().invoke(app, given).stdout)


def test_a_region_is_found_as_the_tools_of_aws_find_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = ["deploy", "aws", "iam-policy", "--cluster-id", "lab"]
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    shared = tmp_path / "config"
    shared.write_text("[default]\nregion = eu-west-1\n[profile work]\nregion = us-east-2\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(shared))
    assert "eu-west-1" in CliRunner().invoke(app, command).stdout
    assert "us-east-2" in CliRunner().invoke(app, [*command, "--profile", "work"]).stdout
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert "us-west-2" in CliRunner().invoke(app, command).stdout
    monkeypatch.delenv("AWS_REGION")
    shared.write_text("no sections")
    result = CliRunner().invoke(app, command)
    assert "--region: is missing" in result.stderr


@pytest.mark.parametrize(
    ("cloud", "action"), [("aws", "ec2:StopInstances"), ("gcp", "compute.instances.start")]
)
def test_a_deployed_master_may_stop_its_machines(cloud: str, action: str) -> None:
    given = {
        "aws": ["deploy", "aws", "iam-policy", "--cluster-id", "lab", "--region", "us-west-2"],
        "gcp": ["deploy", "gcp", "iam-policy", "--cluster-id", "lab", "--project-id", "my-project"],
    }
    assert f'"{action}"' in CliRunner().invoke(app, given[cloud]).stdout
