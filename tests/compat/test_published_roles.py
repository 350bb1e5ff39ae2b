"""A cluster whose roles decide, made from a file, and what the published command line tells those who use it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.published import PublishedDet, needs_published
from tests.real_cluster import RealCluster
from windlass.cli.main import app

pytestmark = needs_published
PASSWORD = "Correct-horse-1"
SECRET = {"password": {"env": "PASSWORD"}}
FILE = {
    "users": {"ed": SECRET, "wanda": SECRET, "nobody": SECRET, "ci": {"remote": True}},
    "groups": {"red": {"members": ["ed", "wanda"]}},
    "roles": {"ClusterAdmin": {"users": ["admin"]}},
    "workspaces": {
        "red": {
            "default_compute_pool": "gpu",
            "roles": {"Editor": {"groups": ["red"]}, "WorkspaceAdmin": {"users": ["wanda"]}},
            "projects": {"paint": {"description": "of walls", "key": "PAINT"}},
            "config_policies": {"tasks": {"constraints": {"priority_limit": 10}}},
        },
        "blue": {"roles": {"Viewer": {"users": ["ed"]}}},
        "dark": {},
    },
    "resource_pools": {"gpu": {"workspaces": ["red", "dark"]}},
    "config_policies": {"experiment": {"constraints": {"resources": {"max_slots": 4}}}},
    "templates": {"brush": {"workspace": "red", "config": {"labels": ["a"]}}},
}
LINK = "--agent-uid 1000 --agent-gid 1000 --agent-user a --agent-group b"
PEOPLE = ("admin", "wanda", "ed", "nobody")
# Who asks, what is expected (`ok`: it succeeds; `- X`: it does, and does not say X; else it says that and, without a +,
# fails), and the words after `det`.
WALK = """
admin | + ci | user list
admin | ok | user create new --password Secret123
admin | ok | user edit new --display-name New --admin false
admin | ok | user link-with-agent-user new {link}
ed | + ed | user whoami
ed | ok | user edit ed --display-name Edward
ed | required permissions: PERMISSION_TYPE_ADMINISTRATE_USER | user create x --password Secret123
ed | required permissions: PERMISSION_TYPE_ADMINISTRATE_USER | user edit new --active false
ed | required permissions: PERMISSION_TYPE_ADMINISTRATE_USER | user change-password new
admin | ok | user rename new newer
admin | ok | user deactivate newer
admin | ok | user activate newer
admin | ok | user rename newer new
ed | required permissions: PERMISSION_TYPE_ADMINISTRATE_USER | user rename new newest
ed | required permissions: PERMISSION_TYPE_ADMINISTRATE_USER | user link-with-agent-user ed {link}
admin | ok | user-group create green --add-user new
admin | + green | user-group list
ed | - green | user-group list
ed | + red | user-group list
ed | + wanda | user-group describe red
ed | could not find user group name green | user-group describe green
ed | required permissions: PERMISSION_TYPE_UPDATE_GROUP | user-group create x
ed | required permissions: PERMISSION_TYPE_UPDATE_GROUP | user-group add-user red nobody
ed | required permissions: PERMISSION_TYPE_UPDATE_GROUP | user-group delete red --yes
ed | required permissions: PERMISSION_TYPE_UPDATE_GROUP | user-group change-name red pink
ed | required permissions: PERMISSION_TYPE_UPDATE_GROUP | user-group remove-user red wanda
admin | ok | user-group remove-user green new
admin | ok | user-group change-name green lime
admin | ok | user-group delete lime --yes
admin | + WorkspaceAdmin | rbac list-roles
ed | + WorkspaceAdmin | rbac list-roles
ed | + PERMISSION_TYPE_CREATE_EXPERIMENT | rbac my-permissions
nobody | - PERMISSION_TYPE | rbac my-permissions
ed | + Editor | rbac list-users-roles ed
ed | access denied | rbac list-users-roles wanda
ed | + Editor | rbac list-groups-roles red
nobody | could not find user group name red | rbac list-groups-roles red
ed | could not find role name ClusterAdmin | rbac describe-role ClusterAdmin
admin | + admin | rbac describe-role ClusterAdmin
ed | required permissions: PERMISSION_TYPE_ASSIGN_ROLES | rbac assign-role Viewer -u nobody -w red
wanda | ok | rbac assign-role Viewer -u new -w red
wanda | required permissions: PERMISSION_TYPE_ASSIGN_ROLES | rbac assign-role Viewer -u new
wanda | ok | rbac unassign-role Viewer -u new -w red
wanda | not found | rbac unassign-role Viewer -u new -w red
admin | already exists | rbac assign-role Editor -g red -w red
admin | cannot be assigned to a local scope | rbac assign-role ClusterAdmin -u ed -w red
admin | ok | token create ci --expiration-days 2 --description pipeline
admin | + pipeline | token list
ed | access denied | token create ed
ed | access denied | token create ci
ed | access denied | token list
admin | ok | rbac assign-role TokenCreator -g red
ed | + TokenID | token create ed --description mine
ed | + mine | token list
ed | - pipeline | token list
ed | + mine | token describe 2
ed | ok | token edit 2 --description still-mine
ed | ok | token revoke 2
ed | - pipeline | token describe 1
ed | not found | token revoke 1
admin | ok | token revoke 1
ed | access denied | token create ci
admin | + dark | workspace list
ed | - dark | workspace list
nobody | - red | workspace list
ed | + wanda | workspace list-members red
ed | workspace 'dark' not found, please check your permissions | workspace describe dark
ed | required permissions: PERMISSION_TYPE_CREATE_WORKSPACE | workspace create mine
ed | required permissions: PERMISSION_TYPE_UPDATE_WORKSPACE | workspace edit red --name pink
ed | required permissions: PERMISSION_TYPE_DELETE_WORKSPACE | workspace delete blue --yes
ed | required permissions: PERMISSION_TYPE_UPDATE_WORKSPACE | workspace archive red
ed | + paint | workspace list-projects red
admin | ok | workspace create mine
admin | ok | workspace edit mine --name ours
admin | ok | workspace delete ours --yes
wanda | ok | workspace archive red
wanda | ok | workspace unarchive red
ed | + gpu | workspace list-pools red
ed | + paint | project list red
ed | + PAINT | project describe red paint
ed | ok | project create red frames --key FRAME
ed | ok | project edit red frames --description wood
ed | ok | project archive red frames
ed | ok | project unarchive red frames
ed | ok | project list-experiments red frames
ed | required permissions: PERMISSION_TYPE_CREATE_PROJECT | project create blue x
ed | required permissions: PERMISSION_TYPE_DELETE_PROJECT | project delete red frames --yes
wanda | ok | project delete red frames --yes
nobody | No workspace found with name red | project list red
ed | + brush | template list
ed | ok | template create mine {config} -w red
ed | required permissions: PERMISSION_TYPE_CREATE_TEMPLATES | template create x {config} -w blue
ed | ok | template set-value config brush {config}
ed | ok | template set mine {config}
ed | ok | template remove mine
nobody | - brush | template list
nobody | template 'brush' not found | template describe brush
nobody | template 'brush' not found | template remove brush
ed | + max_slots | config-policies describe experiment
ed | + priority_limit | config-policies describe tasks -w red
ed | required permissions: PERMISSION_TYPE_MODIFY_GLOBAL_CONFIG_POLICIES | config-policies set experiment {policy}
ed | required permissions: PERMISSION_TYPE_MODIFY_WORKSPACE_CONFIG_POLICIES | config-policies delete tasks -w red
wanda | ok | config-policies set tasks {policy} -w red
nobody | workspace 'red' not found, please check your permissions | config-policies describe tasks -w red
ed | ok | model create wall -w red
ed | + wall | model list
ed | + wall | model describe wall
ed | required permissions: PERMISSION_TYPE_CREATE_MODEL_REGISTRY | model create x -w blue
ed | required permissions: PERMISSION_TYPE_CREATE_MODEL_REGISTRY | model move wall --workspace-name blue
ed | not found | model register-version wall 5d0fb4f2-33c3-4d0c-9a3b-0d9d7a3b7c11
ed | ok | model list-versions wall
wanda | ok | model create roof -w red
ed | required permissions: PERMISSION_TYPE_DELETE_OTHER_USER_MODEL_REGISTRY | model delete roof
nobody | - wall | model list
nobody | model 'wall' not found | model describe wall
wanda | ok | model delete wall
admin | + dark | resource-pool bindings list-workspaces gpu
ed | - dark | resource-pool bindings list-workspaces gpu
ed | required permissions: PERMISSION_TYPE_MODIFY_RP_WORKSPACE_BINDINGS | resource-pool bindings add gpu blue
admin | ok | resource-pool bindings add gpu blue
admin | ok | resource-pool bindings replace gpu red dark
admin | not found | resource-pool bindings remove gpu blue
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    settings = {
        "resource_pools": [{"pool_name": "default"}, {"pool_name": "gpu"}],
        "security": {"initial_user_password": PASSWORD, "authz": {"type": "rbac"}},
    }
    with RealCluster(tmp_path_factory.mktemp("roles"), settings) as cluster:
        yield cluster


def apply(cluster: RealCluster, document: Mapping[str, object], *options: str) -> Result:
    path = cluster.folder / "people.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    environment = {**cluster.login_as("admin"), "PASSWORD": PASSWORD, "HOME": str(cluster.folder)}
    words = ["-m", cluster.url, "admin", "apply", str(path), *options]
    return CliRunner().invoke(app, words, env=environment)


def steps(cluster: RealCluster, document: Mapping[str, object], *options: str) -> list[str]:
    """What was done, by kind."""
    result = apply(cluster, document, "--json", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["steps"]
    assert {one["state"] for one in found} <= {"planned" if "--dry-run" in options else "done"}
    assert PASSWORD not in result.output
    return [one["kind"] for one in found]


def test_a_file_makes_the_cluster_once(cluster: RealCluster) -> None:
    """The roles that the master gives to who creates a workspace are seen by a second look."""
    planned = steps(cluster, FILE, "--dry-run")
    assert steps(cluster, FILE) == [*planned, "role", "role"]
    assert steps(cluster, FILE) == []


def test_an_apply_that_was_refused_goes_on(cluster: RealCluster) -> None:
    steps(cluster, FILE)
    pools = {"gpu": {"workspaces": ["red"]}, "default": {"workspaces": ["red"]}}
    templates = {"brush": {"config": {"labels": ["b"]}}}
    wrong = {"resource_pools": pools, "templates": templates}
    refused = apply(cluster, wrong)
    assert refused.exit_code == 1
    assert "~ resource pool gpu\n    - dark\nfailed: ~ resource pool default" in refused.stdout
    assert "not done: ~ template brush in workspace red" in refused.stdout
    assert "is a default pool" in refused.stderr
    assert "1 step done, 2 not: run it again once that is mended" in refused.stderr
    del pools["default"]
    assert steps(cluster, wrong) == ["template"]
    assert steps(cluster, FILE) == ["resource pool", "template"]


def test_who_may_not_is_told_so(cluster: RealCluster) -> None:
    steps(cluster, FILE)
    path = cluster.folder / "more.yaml"
    path.write_text("users: {more: {password: {env: PASSWORD}}}")
    environment = {**cluster.login_as("ed"), "PASSWORD": PASSWORD, "HOME": str(cluster.folder)}
    words = ["-m", cluster.url, "admin", "apply", str(path)]
    refused = CliRunner().invoke(app, words, env=environment)
    assert refused.exit_code == 1
    assert "PERMISSION_TYPE_ADMINISTRATE_USER" in refused.stderr


@pytest.mark.timeout(600)
def test_each_is_told_what_they_may_see_and_do(cluster: RealCluster, tmp_path: Path) -> None:
    steps(cluster, FILE)
    files = {"config": "labels: [a]", "policy": "constraints: {priority_limit: 5}"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    wrong = []
    with ExitStack() as stack:
        det = {who: stack.enter_context(PublishedDet(cluster, who)) for who in PEOPLE}
        for line in WALK.strip().splitlines():
            who, expected, words = (part.strip() for part in line.split("|"))
            words = words.replace("{link}", LINK)
            for name in files:
                words = words.replace(f"{{{name}}}", str(tmp_path / name))
            done = det[who].run(*words.split())
            if not as_expected(expected, done):
                said = " ".join(str(done["said"]).split())[:200]
                wrong.append(f"{line}: {done['code']} {said} {done['crash']}")
    assert not wrong, "\n".join(wrong)


def as_expected(expected: str, done: Mapping[str, object]) -> bool:
    said = " ".join(str(done["said"]).split())
    if done["crash"]:
        return False
    if expected == "ok":
        return done["code"] == 0
    if expected.startswith(("+ ", "- ")):
        return done["code"] == 0 and (expected[2:] in said) is expected.startswith("+")
    return done["code"] != 0 and expected in said
