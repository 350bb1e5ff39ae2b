"""What Terraform and the clouds' plug-ins say, as they word it, in one sentence with a way out."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.deploy.cloud.progress import TerraformProgress, failure, sentence

ERRORS: list[tuple[str, str, str, str, str]] = [
    # address, summary, detail, what is left of it, way out
    (
        "",
        "No valid credential sources found",
        "Please see https://registry.terraform.io/providers/hashicorp/aws\nfor more information about providing "
        "credentials.\n\nError: failed to refresh cached credentials, no EC2 IMDS role found",
        "No valid credential sources found",
        "log in to the cloud (aws configure sso",
    ),
    (
        "module.network.data.aws_vpc.default[0]",
        "reading EC2 VPC",
        "operation error EC2: DescribeVpcs, https response error StatusCode: 400, RequestID: 3f1c-ab, api error "
        "RequestExpired: Request has expired.",
        "RequestExpired: Request has expired",
        "log in to the cloud",
    ),
    (
        "",
        "validating provider credentials",
        "retrieving caller identity from STS: operation error STS: GetCallerIdentity, https response error StatusCode: "
        "403, RequestID: 8d-1, api error ExpiredToken: The security token included in the request is expired",
        "ExpiredToken: The security token included in the request is expired",
        "log in to the cloud",
    ),
    (
        "module.address[0].aws_eip.master",
        "creating EC2 EIP",
        "operation error EC2: AllocateAddress, https response error StatusCode: 400, RequestID: a-b, api error "
        "AddressLimitExceeded: The maximum number of addresses has been reached.",
        "AddressLimitExceeded",
        "ask the cloud for a larger quota",
    ),
    (
        "module.master.aws_instance.master",
        "creating EC2 Instance",
        "operation error EC2: RunInstances, https response error StatusCode: 400, RequestID: a-b, api error "
        "VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 1 allows",
        "current vCPU limit of 1 allows",
        "ask the cloud for a larger quota",
    ),
    (
        'module.roles.aws_iam_role.all["master"]',
        "creating IAM Role (det-lab-master)",
        "operation error IAM: CreateRole, https response error StatusCode: 403, RequestID: a-b, api error "
        "AccessDenied: User: arn:aws:iam::123456789012:user/me is not authorized to perform: iam:CreateRole",
        "is not authorized to perform: iam:CreateRole",
        "whoever runs this must be allowed to make it",
    ),
    (
        'module.roles.aws_iam_role.all["master"]',
        "creating IAM Role (det-lab-master)",
        "operation error IAM: CreateRole, https response error StatusCode: 409, RequestID: a-b, "
        "EntityAlreadyExists: Role with name det-lab-master already exists.",
        "Role with name det-lab-master already exists",
        "the name is taken, by an interrupted run or by somebody else",
    ),
    (
        "module.secret.aws_secretsmanager_secret.cluster",
        "creating Secrets Manager Secret (det-lab)",
        "operation error Secrets Manager: CreateSecret, https response error StatusCode: 400, RequestID: a-b, "
        "InvalidRequestException: You can't create this secret because a secret with this name is already "
        "scheduled for deletion.",
        "already scheduled for deletion",
        "aws secretsmanager restore-secret --secret-id",
    ),
    (
        "module.disk.google_compute_disk.data",
        "Error waiting for Disk to be created",
        "Quota 'SSD_TOTAL_GB' exceeded.  Limit: 250.0 in region us-west1.",
        "Quota 'SSD_TOTAL_GB' exceeded. Limit: 250.0",
        "ask the cloud for a larger quota",
    ),
    (
        "module.network.google_compute_network.cluster",
        "Error creating Network",
        "googleapi: Error 409: The resource 'projects/p/global/networks/det-default' already exists, alreadyExists",
        "already exists",
        "the name is taken",
    ),
    (
        "module.database[0].google_sql_database_instance.master",
        "Error, failed to create instance",
        "googleapi: Error 403: Cloud SQL Admin API has not been used in project 1 before or it is disabled. Enable it "
        "by visiting https://console.developers.google.com/apis, SERVICE_DISABLED",
        "has not been used in project 1",
        "gcloud services enable",
    ),
    (
        "",
        "Attempted to load application default credentials since neither `credentials` nor `access_token` was set",
        "google: could not find default credentials.",
        "could not find default credentials",
        "gcloud auth application-default login",
    ),
    (
        "",
        "Error acquiring the state lock",
        "Error message: operation error S3: PutObject, https response error StatusCode: 412, RequestID: Z1, HostID: "
        "9G=, api error PreconditionFailed: At least one of the pre-conditions you specified did not hold\nLock Info:\n"
        "  ID:        8caa926d-52c8\n  Path:      states/a\n  Operation: OperationTypeApply\n  Who:       me@laptop\n"
        "  Version:   1.11.4\n  Created:   2026-11-22 23:07:37.86 +0000 UTC\n  Info:      \n\n\nTerraform acquires",
        "me@laptop holds the lock of the state since 2026-11-22 23:07 UTC (lock 8caa926d-52c8)",
        "if it was killed: terraform -chdir=/here force-unlock 8caa926d-52c8",
    ),
    (
        "",
        "Failed to save state",
        "Error saving state: failed to upload state\nThe error shown above has prevented Terraform from writing the "
        'updated state to the configured backend. The state is in "errored.tfstate".',
        "Failed to save state",
        "terraform -chdir=/here state push errored.tfstate",
    ),
    (
        "",
        "Saved plan is stale",
        "The given plan file can no longer be applied.",
        "",
        "run up again",
    ),
    (
        "",
        "Failed to query available provider packages",
        "Could not retrieve the list of available versions for provider hashicorp/aws",
        "",
        "name a mirror in TF_CLI_CONFIG_FILE",
    ),
]


def diagnostic(address: str, summary: str, detail: str) -> dict[str, Any]:
    return {"severity": "error", "address": address, "summary": summary, "detail": detail}


@pytest.mark.parametrize(("address", "summary", "detail", "kept", "way_out"), ERRORS)
def test_an_error_is_one_sentence_with_a_way_out(
    address: str, summary: str, detail: str, kept: str, way_out: str
) -> None:
    said = failure([sentence(diagnostic(address, summary, detail))], "/here")
    assert address in said
    assert kept in said
    assert way_out in said
    assert "\n" not in said
    assert "RequestID" not in said


def test_errors_are_counted_once_and_long_ones_are_cut() -> None:
    assert failure(["a", "b", "a"], "/here") == "a; b"
    assert failure([], "/here") == "Terraform ended without saying why"
    assert len(sentence(diagnostic("", "s", "x" * 2000))) < 610


def test_events_become_lines_with_a_count() -> None:
    progress = TerraformProgress()
    hook = {"resource": {"addr": "module.a.b"}, "action": "create", "elapsed_seconds": 10}
    events: list[dict[str, Any]] = [
        {
            "type": "planned_change",
            "change": {
                "action": "replace",
                "reason": "tainted",
                "resource": {"addr": "module.a.b"},
            },
        },
        {"type": "change_summary", "changes": {"operation": "plan", "add": 1, "remove": 1}},
        {"type": "apply_start", "hook": hook},
        {"type": "apply_progress", "hook": hook},
        {"type": "apply_complete", "hook": hook},
        {"type": "apply_start", "hook": {**hook, "action": "delete"}},
        {"type": "diagnostic", "diagnostic": {"severity": "warning", "summary": "old"}},
        {"type": "later"},
    ]
    assert [line for event in events for line in progress.lines(event)] == [
        "Making module.a.b (1 of 2)",
        "Making module.a.b, for 10 s",
        "Removing module.a.b (2 of 2)",
    ]
    assert progress.changes == [("replace", "module.a.b")]
    assert progress.tainted == ["module.a.b"]
    assert progress.errors == []
