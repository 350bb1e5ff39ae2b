"""Every verb of the published command line: what it says and how it ends, or the sentence that it is not there yet."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from test_published_client import CONFIG, MODEL, PUBLISHED_PYTHON

from tests.published import BINDINGS, COMPAT, needs_published, published
from tests.real_cluster import Json, RealCluster, eventually
from windlass.sdk.context_dir import pack_directory
from windlass.sdk.interactive import COMMAND, NOTEBOOK, SHELL, TENSORBOARD, Kind

pytestmark = [needs_published, pytest.mark.timeout(600)]  # some 200 commands
MISSING = "is not implemented in this version of Windlass"
AUX = {"resources": {"slots": 0}}
HELD = {"entrypoint": ["sleep", "600"], **AUX}

# Each line: what is expected of the words after `det`. `ok`: it succeeds. `missing`: it fails with the sentence of
# a 501. `any`: it ends by itself. Else: it fails, and says that. In braces: what the fixture `ids` makes.
WALK = """
ok | version
ok | user whoami
ok | auth list-providers
ok | auth login
ok | user list
ok | user create someone --password Secret123
ok | user login someone
ok | user edit someone --display-name Someone
is the name of another user | user edit someone --display-name Admin
is the name of another user | user edit someone --display-name DETERMINED
ok | user rename someone other
user already exists | user rename other determined
ok | user edit other --username someone --active true --admin false --remote false
ok | user change-password someone
ok | user deactivate someone
ok | user activate someone
any | user link-with-agent-user someone --agent-uid 1000 --agent-gid 1000 --agent-user a --agent-group b
ok | token create
ok | token create someone --expiration-days 2 --description ci --json
at most 30 days | token create --expiration-days 31
ok | token list
ok | token list someone --show-inactive --json
ok | token describe 1 2
ok | token edit 1 --description x
ok | token revoke 1
Unauthenticated | token login x
ok | user-group create g --add-user someone
already exists | user-group create g
ok | user-group list
ok | user-group list --json
ok | user-group list --groups-user-belongs-to someone
ok | user-group describe g
ok | user-group add-user g determined
already exists | user-group add-user g determined
ok | user-group remove-user g someone
ok | user-group change-name g h
could not find user group name g | user-group describe g
ok | rbac list-roles
ok | rbac list-roles --exclude-global-roles
ok | rbac my-permissions
ok | rbac assign-role Viewer -u someone
ok | rbac assign-role Editor -g h -w Uncategorized
already exists | rbac assign-role Viewer -u someone
cannot be assigned to a local scope | rbac assign-role ClusterAdmin -u someone -w Uncategorized
could not find role name Nobody | rbac assign-role Nobody -u someone
ok | rbac describe-role Viewer
ok | rbac list-groups-roles h
ok | rbac list-users-roles someone
ok | rbac list-users-roles determined
ok | workspace list-members Uncategorized
ok | rbac unassign-role Viewer -u someone
not found | rbac unassign-role Viewer -u someone
ok | user-group delete h --yes
are not part of Windlass | oauth client list
are not part of Windlass | oauth client add n d
are not part of Windlass | oauth client remove x
ok | master info
ok | master info --json
ok | master info --yaml
ok | master logs
ok | master logs --tail 3
ok | master config show
ok | master config show --json
ok | master config show --yaml
ok | master config set --log.level DEBUG
ok | master config set --log.color on
ok | master cluster-message get
ok | master cluster-message set -m hello
ok | master cluster-message get --json
ok | master cluster-message get --yaml
ok | master cluster-message set -m hello --start 2026-01-01T00:00:00Z --end 2036-01-01T00:00:00Z
ok | master cluster-message set -m hello --duration 2h
ok | master cluster-message clear --clear
ok | master cluster-message clear
ok | agent list
ok | slot list
ok | resource-pool bindings list-workspaces default
is a default pool | resource-pool bindings add default Uncategorized
'default to workspace Uncategorized' not found | resource-pool bindings remove default Uncategorized
is a default pool | resource-pool bindings replace default Uncategorized
ok | resources raw 2026-01-01T00:00:00 2026-01-02T00:00:00
ok | resources raw 2026-01-01T00:00:00 2026-01-02T00:00:00 --json
ok | resources allocations 2026-01-01T00:00:00 2026-01-02T00:00:00
ok | resources aggregated 2026-01-01 2026-01-02
ok | resources aggregated 2026-01-01 2026-01-02 --json
ok | resources aggregated 2026-01-01 2026-02-01 --monthly
ok | job list
ok | job update {j} --priority 7
ok | job update-batch {j}.priority=8
ok | command list
ok | command describe {c}
ok | command config {c}
ok | command logs {c}
ok | command set priority {c} 9
ok | command run --detach true
ok | task list
ok | task list --json
ok | task list --csv
ok | task logs {c}
ok | task logs {c} --head 2 --json
ok | task logs {c} --tail 2
ok | task logs {o} -f
ok | task logs {c} --allocation-id {c}.1 {filter}
make sure task is of type GENERIC | task config {c}
ok | task create {task}
ok | task create {task} --context {hooks} --include {task} --project_id 1 --config resources.slots=0 --no_pause
ok | task create {task} --parent {g} --inherit_context
ok | task create {task} --fork {o} --config entrypoint=["true"] -f
ok | task config {g}
ok | task config {g} --json
make sure task is of type GENERIC | task fork {c}
ok | task fork {g}
ok | task fork {o} --project_id 1 -f
make sure task is of type GENERIC | task pause {c}
ok | task pause {g}
make sure task is of type GENERIC | task unpause {c}
ok | task unpause {g}
make sure task is of type GENERIC | task kill {c}
ok | task kill --root {g}
as it is in state COMPLETED | task kill {o}
it is in state COMPLETED | task pause {o}
in state COMPLETED | task unpause {o}
ok | task cleanup-logs
ok | command kill {c}
ok | notebook list
ok | notebook list -a
ok | notebook list -a --json
ok | notebook list -a --csv
ok | notebook start --detach --config resources.slots=0
ok | notebook config {n}
ok | notebook logs {n}
ok | notebook open {n}
ok | notebook start --preview
ok | notebook set priority {n} 9
ok | notebook kill {n}
ok | notebook kill {n}
ok | shell list
ok | shell list -a
ok | shell list -a --json
ok | shell list -a --csv
ok | shell start --detach --config resources.slots=0
ok | shell config {s}
ok | shell logs {s}
ok | shell open {s} true
ok | shell show-ssh-command {s}
ok | shell show_ssh_command {s}
ok | shell set priority {s} 9
ok | shell kill {s}
ok | shell kill {s}
ok | tensorboard list
ok | tensorboard list -a
ok | tensorboard list -a --json
ok | tensorboard list -a --csv
ok | tensorboard start --detach {e}
ok | tensorboard config {b}
ok | tensorboard logs {b}
ok | tensorboard open {b}
ok | tensorboard set priority {b} 9
ok | tensorboard kill {b}
ok | tensorboard kill {b}
Either experiment_ids or trial_ids must be specified | tensorboard start
ok | agent disable node
ok | agent enable node
ok | slot disable node 0
ok | slot enable node 0
ok | experiment list
ok | experiment list --all --show_project --limit 1 --offset 1 --pages all
ok | experiment list --csv
ok | experiment describe {e}
ok | experiment describe {e} --metrics
ok | experiment describe {e} --json
ok | experiment describe {e} --csv
ok | experiment describe {e} --metrics --outdir .
ok | experiment config {e}
ok | experiment wait {e}
ok | experiment wait {e} --polling-interval 1
ok | experiment logs {e}
ok | experiment logs {e} -f
ok | experiment logs {e} --head 2 --json
ok | experiment logs {e} --tail 2
ok | experiment logs {e} --level INFO {filter}
ok | experiment list-trials {e}
ok | experiment list-trials {e} --limit 1 --offset 0 --pages 1
ok | experiment list-trials {e} --csv
ok | experiment list-checkpoints {e}
ok | experiment list-checkpoints {e} --best 1
ok | experiment list-checkpoints {e} --csv
ok | experiment download {e} --output-dir e1
ok | experiment download {e} --output-dir e2 --top-n 1 --sort-by val_loss --smaller-is-better true -q
ok | experiment download-model-def {e}
ok | experiment download-model-def {e} --output-dir {hooks}
has already completed | experiment activate {e}
has already completed | experiment pause {e}
ok | experiment cancel {e}
ok | experiment kill {e}
ok | experiment set name {e} n
ok | experiment set description {e} d
has already completed | experiment set priority {e} 5
has already completed | experiment set weight {e} 2
has already completed | experiment set max-slots {e} 1
ok | experiment set gc-policy {e} --yes --save-experiment-best 2 --save-trial-best 2 --save-trial-latest 2
ok | experiment set log-retention {e} --days 3
ok | experiment set log-retention {e} --forever
ok | experiment label add {e} l
ok | experiment label remove {e} l
ok | experiment archive {e}
ok | experiment unarchive {e}
ok | project create Uncategorized moved
ok | experiment move {e} Uncategorized moved
ok | experiment move {e} Uncategorized Uncategorized
ok | project delete Uncategorized moved --yes
ok | experiment create {config} {model} --paused
ok | experiment create {config} {model} --paused --config name=x --project_id 1 --include {task}
ok | experiment create {config} {model} --config hyperparameters.steps=1 -f -p 8123:8124
ok | experiment continue {e}
ok | experiment kill {e}
any | experiment wait {e}
ok | experiment continue {e} --config-file {longer} --config description=again -f
ok | experiment wait {e}
ok | experiment delete-tb-files {e}
ok | trial describe {t}
ok | trial describe {t} --metrics --limit 1 --offset 0 --pages all
ok | trial describe {t} --metrics-summary --csv
ok | trial describe {t} --json
ok | trial logs {t}
ok | trial logs {t} -f
ok | trial logs {t} --head 2 --json
ok | trial logs {t} --tail 2
ok | trial logs {t} --level INFO {filter}
ok | trial kill {t}
ok | trial download {t} --latest --output-dir t1
ok | trial download {t} --best --sort-by val_loss --smaller-is-better true -q --output-dir t2
ok | trial set log-retention {t} --days 3
ok | trial set log-retention {t} --forever
ok | trial support-bundle {t}
ok | trial support-bundle {t} -o {hooks}
ok | checkpoint describe {u}
ok | model create m
ok | model list
ok | model move m --workspace-name Uncategorized
ok | model register-version m {u}
ok | model describe m
ok | model list-versions m
in the model registry | checkpoint delete {u} --yes
ok | model delete m
ok | checkpoint download {u} --output-dir c1
ok | checkpoint download {u} --output-dir c2 --mode master -q
ok | checkpoint rm {u} --yes --glob *
ok | checkpoint delete {u} --yes
ok | experiment delete {e} --yes
ok | preview-search {config}
ok | template list
ok | template create t {config}
ok | experiment create {config} {model} --paused --template t
ok | template describe t
ok | template set t {config}
ok | template set-value config t {config}
ok | template remove t
ok | project list Uncategorized
ok | project create Uncategorized p
ok | project describe Uncategorized Uncategorized
ok | project edit Uncategorized p --new_name n
ok | project list-experiments Uncategorized Uncategorized
ok | project archive Uncategorized n
ok | project unarchive Uncategorized n
is immutable | project archive Uncategorized Uncategorized
ok | project delete Uncategorized n --yes
ok | workspace list
ok | workspace create w --default-compute-pool default --checkpoint-storage-config-file {storage}
avoid names equal to other workspaces | workspace create W
ok | workspace describe Uncategorized
ok | workspace edit w --name n --default-aux-pool default --checkpoint-storage-config {}
ok | workspace list-pools Uncategorized
ok | workspace list-projects Uncategorized
ok | workspace archive n
ok | workspace unarchive n
is immutable | workspace archive Uncategorized
ok | workspace delete n --yes
ok | workspace bindings list Uncategorized
of Kubernetes | workspace bindings set Uncategorized --namespace n
of Kubernetes | workspace bindings delete Uncategorized
of Kubernetes | workspace resource-quota set Uncategorized 1
ok | config-policies describe experiment
ok | config-policies describe tasks -w Uncategorized --json
ok | config-policies set experiment {policy}
ok | config-policies delete experiment
ok | dev auth-token
ok | dev bindings list
ok | dev bindings call get_GetMe
ok | dev curl /api/v1/me
ok | user logout
"""

FILTER = (
    "--agent-id node --container-id x --rank-id 0 --source x --stdtype stdout "
    "--timestamp-before 2030-01-01T00:00:00Z --timestamp-after 2020-01-01T00:00:00Z"
)
"""What `{filter}` stands for: the options of logs."""
OPTIONS_OF = (
    "checkpoint",
    "experiment",
    "master",
    "preview-search",
    "resources",
    "run",
    "task",
    "trial",
)
"""Nouns whose verbs are walked with every option."""
LEFT_OUT = [
    "experiment create --local",  # tests/frameworks: they want a class of a framework
    "experiment create --test-mode",
    "master logs --follow",  # does not end
    "task logs --level",  # the client fails before it asks the master, as with the next
    "trial download --uuid",
]
VERBS = ("Activate", "Archive", "Cancel", "Kill", "Pause", "Unarchive")
# Functions of the client's bindings whose calls are answered by the sentence of a 501.
MISSING_CALLS = """
get_GetKubernetesResourceManagers
get_GetKubernetesResourceQuotas
get_GetWorkspacesWithDefaultNamespaceBindings
post_BulkAutoCreateWorkspaceNamespaceBindings
"""
# Those that are refused with what the walk gives them, and the words that say why. All others succeed.
REFUSED_CALLS = """
webhook '1' not found | delete_DeleteWebhook
webhook '1' not found | patch_PatchWebhook
webhook '1' not found | post_TestWebhook
valid url required | post_PostWebhook
name at least one workspace | delete_UnbindRPFromWorkspace
is a default pool | post_BindRPToWorkspace
is a default pool | put_OverwriteRPWorkspaceBindings
' not found | get_GetGroup
' not found | get_GetRolesAssignedToGroup
give at least one assignment | post_AssignRoles
give at least one assignment | post_RemoveAssignments
resources 'x' not found | get_AllocationRendezvousInfo
project with key 'x' not found | get_GetProjectByKey
template 'x' not found | get_GetTemplate
model 'x' not found | delete_DeleteModelVersion
model 'x' not found | get_GetModel
model 'x' not found | get_GetModelVersion
model 'x' not found | get_GetModelVersions
model 'x' not found | get_GetTrialMetricsByModelVersion
model 'x' not found | patch_PatchModel
model 'x' not found | patch_PatchModelVersion
checkpoint 'x' not found | post_PostModelVersion
model 'x' is archived | post_MoveModel
trial 'x/x' not found | get_GetTrialByExternalID
user 'someone-else' not found | get_GetAccessTokens
user 'someone-else' not found | get_GetUserByUsername
fieldMask.paths: is empty | patch_PatchMasterConfig
is immutable | patch_PatchProject
template 'x' not found | patch_PatchTemplateConfig
template 'x' not found | patch_PatchTemplateName
is managed: the cluster runs it and knows its state | patch_PatchTrial
access token '1' not found | patch_PatchAccessToken
which keep their names | patch_PatchUser
is immutable | patch_PatchWorkspace
has already completed | post_ActivateExperiment
is immutable | post_AddProjectNote
experiment '999999' not found | post_ContinueExperiment
unmanaged: must be true | post_CreateTrial
file of the model definition 'model.py' not found | post_GetModelDefFile
Unauthenticated | post_Login
' not found | post_MarkAllocationResourcesDaemon
' not found | post_NotifyContainerRunning
Experiment 1 has already completed | post_PauseExperiment
' not found | post_PostAllocationAcceleratorData
' not found | post_PostAllocationProxyAddress
checkpoint 'x' not found | post_PostCheckpointMetadata
logs: Tuple should have at least 1 item after validation, not 0 | post_PostTaskLogs
username: "" must have 2 to 255 characters | post_PostUser
is not a trial: it has no checkpoints | post_ReportCheckpoint
has already ended | post_SetCommandPriority
are of Kubernetes, which this cluster does not use | post_SetResourceQuotas
are of Kubernetes, which this cluster does not use | post_SetWorkspaceNamespaceBindings
trial 1 has ended: it starts no run | post_StartTrial
is not archived | post_UnarchiveExperiment
is immutable | post_UnarchiveProject
is immutable | post_UnarchiveWorkspace
unmanaged: must be true | put_PutExperiment
is immutable | put_PutProjectNotes
createTrialRequest: Field required; externalTrialId: Field required | put_PutTrial
password: needs at least 8 characters | post_SetUserPassword
startTime: Input should be a valid datetime or date, input is too short | put_SetClusterMessage
is immutable | post_ArchiveProject
is immutable | post_ArchiveWorkspace
Experiment is archived. | post_MoveExperiment
is immutable | post_MoveProject
is immutable | delete_DeleteProject
is already being deleted | delete_DeleteTensorboardFiles
is immutable | delete_DeleteWorkspace
are of Kubernetes, which this cluster does not use | delete_DeleteWorkspaceNamespaceBindings
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("walk")
    settings = {
        "resource_pools": [{"pool_name": "default"}],
        "security": {"authz": {"rbac_ui_enabled": True}},
    }
    with RealCluster(folder, settings) as cluster:
        cluster.start_agent("node", slots=2, options=PUBLISHED_PYTHON)
        yield cluster


@pytest.fixture
def ids(cluster: RealCluster, tmp_path: Path) -> dict[str, str]:
    folder = tmp_path
    config, task, hooks = folder / "config.yaml", folder / "task.yaml", folder / "hooks"
    longer = folder / "longer.yaml"
    longer.write_text("{hyperparameters: {steps: 13}, searcher: {max_length: {batches: 13}}}")
    storage = folder / "storage.yaml"
    storage.write_text("{type: directory, container_path: /tmp}")
    policy = folder / "policy.yaml"
    policy.write_text("constraints: {priority_limit: 1}")
    config.write_text(CONFIG)
    task.write_text(yaml.safe_dump(HELD))
    hooks.mkdir()
    # They need no JupyterLab and no TensorBoard: they get no further than this.
    (hooks / "startup-hook.sh").write_text("sleep 600\n")
    experiment = cluster.submit(yaml.safe_load(CONFIG), MODEL)
    ended = generic(cluster, {**HELD, "entrypoint": ["true"]})
    command = launched(cluster, COMMAND, HELD)
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    (trial,) = cluster.trials(experiment)
    eventually(f"{ended} ends", lambda: cluster.get(f"/api/v1/tasks/{ended}")["task"]["endTime"])
    return {
        "{e}": str(experiment),
        "{t}": str(trial["id"]),
        "{u}": str(cluster.client.checkpoints(experiment)[0]["uuid"]),
        "{c}": str(command["id"]),
        "{j}": str(command["jobId"]),
        "{n}": str(launched(cluster, NOTEBOOK, AUX, hooks)["id"]),
        "{s}": str(launched(cluster, SHELL, AUX)["id"]),
        "{b}": str(launched(cluster, TENSORBOARD, {}, hooks, experimentIds=[experiment])["id"]),
        "{g}": generic(cluster, HELD),
        "{o}": ended,
        "{config}": str(config),
        "{longer}": str(longer),
        "{hooks}": str(hooks),
        "{policy}": str(policy),
        "{storage}": str(storage),
        "{task}": str(task),
        "{model}": str(MODEL),
    }


def launched(
    cluster: RealCluster, kind: Kind, config: Json, files: Path | None = None, **more: object
) -> Json:
    tasks = cluster.client.interactive(kind)
    return dict(tasks.launch(config, pack_directory(files).files, **more)[kind.one])


def generic(cluster: RealCluster, config: Json) -> str:
    """The id of a new task."""
    body = {"config": yaml.safe_dump(config)}
    return str(cluster.client.session.post("/api/v1/generic-tasks", body)["taskId"])


def lines() -> list[tuple[str, list[str]]]:
    walk: str = WALK.strip().replace("{filter}", FILTER)
    found = [line.partition(" | ") for line in walk.splitlines()]
    return [(expected.strip(), words.split()) for expected, _, words in found]


def test_no_verb_and_no_option_is_left_out(cluster: RealCluster) -> None:
    listed, _ = published(cluster, "verbs").communicate(timeout=90)
    verbs: dict[str, list[list[str]]] = json.loads(listed)
    left_out = []
    for verb, options in verbs.items():
        walked = [words for _, words in lines() if words[: len(verb.split())] == verb.split()]
        said = {word for words in walked for word in words}
        if not walked and verb != "deploy":
            left_out.append(verb)
        if verb.split()[0] in OPTIONS_OF:
            left_out += [f"{verb} {names[-1]}" for names in options if not said & set(names)]
    assert left_out == LEFT_OUT


def test_every_function_of_the_bindings_is_answered(
    cluster: RealCluster, ids: dict[str, str]
) -> None:
    experiment, trial, command = int(ids["{e}"]), int(ids["{t}"]), ids["{c}"]
    task = {"taskId": ids["{g}"]}
    document = {
        "master": cluster.url,
        "given": {
            "experimentId": experiment,
            "experimentIds": [experiment],
            "ids": [experiment],
            "trialId": trial,
            "trialIds": [trial],
            "runId": trial,
            "runIds": [trial],
            "group": "validation",
            "metricName": "loss",
            "metricNames": ["loss"],
            "stepsCompleted": 100,
            "taskId": command,
            "allocationId": f"{command}.1",
            "requestUuid": "one",
            "checkpointUuid": ids["{u}"],
            "checkpointUuids": [ids["{u}"]],
            "commandId": command,
            "notebookId": ids["{n}"],
            "shellId": ids["{s}"],
            "tensorboardId": ids["{b}"],
            "priority": 10,
            "agentId": "node",
            "slotId": "0",
            "resourcePoolName": "default",
            "username": "someone-else",
            "workloadType": "EXPERIMENT",
            "configPolicies": "constraints: {priority_limit: 1}",
            "timeoutSeconds": 0,
            "startDate": "2026-01-01",
            "endDate": "2026-01-02",
            "timestampAfter": "2026-01-01T00:00:00Z",
            "timestampBefore": "2026-01-02T00:00:00Z",
        },
        "of": {
            "post_CreateExperiment": {"config": CONFIG, "activate": False},
            "post_PreviewHPSearch": {"config": yaml.safe_load(CONFIG)},
            # One that goes on would be in another state at each call.
            "post_ContinueExperiment": {"id": 999_999},
            "post_DeleteRuns": {"runIds": [999_999]},
            "post_GetModelDefFile": {"path": "model.py"},
            "post_CreateGenericTask": {"config": yaml.safe_dump(HELD)},
            # A registered one would stay.
            "post_PostModelVersion": {"checkpointUuid": "x"},
            "get_GetGenericTaskConfig": task,
            "post_PauseGenericTask": task,
            "post_UnpauseGenericTask": task,
            "post_KillGenericTask": task,
            **{f"post_{verb}Experiment": {"id": experiment} for verb in VERBS},
        },
    }
    process = published(cluster, script=BINDINGS)
    said, _ = process.communicate(json.dumps(document), timeout=240)
    ended: dict[str, str] = json.loads(said)
    missing = {name for name, answer in ended.items() if MISSING in answer}
    assert missing == set(MISSING_CALLS.split())
    refused = {name: ended[name] for name in ended if ended[name] != "ok" and name not in missing}
    expected = dict(line.split(" | ")[::-1] for line in REFUSED_CALLS.strip().splitlines())
    assert refused.keys() == expected.keys()
    assert {name: refused[name] for name in refused if expected[name] not in refused[name]} == {}


def test_every_verb_is_answered(cluster: RealCluster, ids: dict[str, str]) -> None:
    process = published(cluster, "run")
    asked = [["-m", cluster.url, *(filled(w, ids) for w in words)] for _, words in lines()]
    answered, _ = process.communicate("\n".join(map(json.dumps, asked)), timeout=480)
    wrong = []
    for (expected, words), line in zip(lines(), answered.splitlines(), strict=True):
        answer = json.loads(line)
        if answer["crash"] or not as_expected(expected, answer["code"], answer["said"]):
            wrong.append((expected, " ".join(words), answer))
    assert wrong == [], "\n".join(map(str, wrong))


def test_the_published_client_logs_in_with_an_access_token(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """By `token login`, and by the variables that a CI job has."""
    client = cluster.client
    token = str(client.access_tokens().create(int(client.user("determined")["id"]))["token"])
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "DET_MASTER": cluster.url}

    def det(*words: str, **variables: str) -> str:
        return subprocess.run(
            [COMPAT / "det", *words],
            env={**home, **variables},
            check=True,
            capture_output=True,
            text=True,
            timeout=90,
        ).stdout

    as_in_ci = {"DET_USER": "determined", "DET_USER_TOKEN": token}
    assert "logged in as user 'determined'" in det("user", "whoami", **as_in_ci)
    assert det("token", "login", token) == "Authenticated as determined.\n"
    assert "logged in as user 'determined'" in det("user", "whoami")


def filled(word: str, ids: dict[str, str]) -> str:
    for name, value in ids.items():
        word = word.replace(name, value)
    return word


def as_expected(expected: str, code: int, said: str) -> bool:
    if "Traceback" in said:
        return False
    if expected == "any":
        return True
    if expected == "ok":
        return code == 0
    return code != 0 and (MISSING if expected == "missing" else expected) in said
