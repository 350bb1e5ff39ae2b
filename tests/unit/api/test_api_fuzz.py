"""Requests that are generated from the description, valid and invalid, about things that exist.

None may fail in the master, and each answer has the shape that the description declares.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings, strategies
from hypothesis.errors import Unsatisfiable
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode

from master.api.application import ROUTES
from master.api.openapi import DescribedApp
from tests.examples import examples
from tests.fakes.api_population import Known, populate
from tests.fakes.api_world import PASSWORD, ApiWorld, api_world
from tests.fakes.declared_replies import DeclaredReplies
from tests.jails import open_way_to

EXAMPLES = 12
"""Of each operation, valid and invalid each."""
MANY_EXAMPLES = 200
"""Valid ones, of an operation of which none of the first succeeded."""
REAL_SHARE = 0.8
"""Of the valid requests."""
GRANTED, HELD = "200", "held"
HELD_S = 0.2
"""Long polls and followed logs are answered by events that do not come here."""
MAY_FAIL = {501, 503}
NEVER_GRANTED = {
    "session_login": "no generated password is right",
    "experiments_continue_": "no generated id is that of an experiment that has ended",
    "experiments_metric_names": "no generated id is that of an experiment",
    "experiments_model_file": "no generated path is that of a file",
    "lists_remove_view": "no generated name is that of a view",
    "experiments_preview_search": "no generated configuration is valid",
    "generic_tasks_create": "no generated configuration is valid",
    "master_patch_config": "no generated path is that of a key that can be changed",
    "metrics_compare": "no generated request names both a trial and a metric",
    "unmanaged_put_experiment": "no generated configuration is valid",
    "unmanaged_create_trial": "no generated id is that of an unmanaged experiment",
    "unmanaged_put_trial": "no generated id is that of an unmanaged experiment",
    "unmanaged_patch_trial": "no generated id is that of an unmanaged trial",
    "unmanaged_get_trial": "no generated id is that of an unmanaged trial",
    "config_policies_put_global": "no generated text is a policy",
    "config_policies_put_of_workspace": "no generated text is a policy",
    "resource_pools_bind": "the only pool is a default one",
    "resource_pools_unbind": "no generated binding is there",
    "resource_pools_replace": "the only pool is a default one",
    "webhooks_create": "no generated URL is one",
    "webhooks_patch": "no generated URL is one",
    "webhooks_test": "the only webhook has an address that no call may go to",
    "users_create": "no generated password is strong enough",
    "agents_join": "no generated join token is right",
    "agents_standing": "no generated credential is right",
    "agents_leave": "no generated credential is right",
    "agents_files": "no generated launch token is right",
    "agents_wheels": "no generated launch token is right",
    "agents_wheel": "no generated launch token is right",
    "agents_tell": "no generated launch token is right",
    "description_docs": "it redirects",
    "description_docs_page": "no generated path is that of a page",
    **dict.fromkeys(
        (
            "workspaces_bind_namespace",
            "workspaces_unbind_namespace",
            "workspaces_set_resource_quota",
        ),
        "it is of Kubernetes",
    ),
    "windlass_add_trial": "no generated id is that of a search that takes trials",
    "windlass_close_search": "no generated id is that of a search that takes trials",
    "windlass_cancel_bake": "no generated id is that of a bake",
    "windlass_retry": "no generated name is that of an offer",
}
"""Operations of which no generated request succeeds, and why."""

SELDOM_GRANTED = {"experiments_create", "users_set_password", "windlass_compare"}
"""Only those with a template, and the master may need longer for one than is waited; few passwords are good enough; few
requests name experiments or else trials, and not both."""
KINDS = {
    "allocationId": "allocation",
    "agentId": "agent",
    "containerId": "container",
    "aheadOf": "job",
    "behindOf": "job",
    "checkpoint_uuid": "checkpoint",
    "uuid": "checkpoint",
    "runId": "trial",
    "metrics_trialId": "trial",
    "pool": "pool",
    "resourcePool": "pool",
    "resourcePools": "pool",
    "resources_id": "container",
    "trialRunId": "run",
    "template_name": "template",
    "model_name": "modelName",
    "model_version_num": "modelVersion",
    "modelVersion": "modelVersion",
    "checkpointUuid": "checkpoint",
    "oldName": "template",
    "otherId": "experiment",
    "group_id": "userGroup",
    "groupId": "userGroup",
    "addGroups": "userGroup",
    "removeGroups": "userGroup",
    "roleIds": "role",
    "destinationProjectId": "project",
    "entityId": "project",
    "access_token_id": "accessToken",
    "tokenIds": "accessToken",
    "sourceProjectId": "project",
    "destinationWorkspaceId": "workspace",
    "key": "projectKey",
}
"""Keys that hold an id -> its kind; of others the name tells: `job_id`, `jobId` and `jobIds` are ids of jobs."""
INTERACTIVE = ("commands", "notebooks", "shells", "tensorboards")


def description() -> dict[str, Any]:
    app = DescribedApp(title="", version="", openapi_url=None, docs_url=None, redoc_url=None)
    app.router.routes.extend(ROUTES)
    return app.openapi()


DOCUMENT = description()
OPERATIONS = {
    operation.definition.raw["operationId"]: operation
    for operation in (
        found.ok() for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    )
}


class Granted(Exception):
    """One request succeeded: no more are needed."""


class Answers:
    """Whether answers are what the description, as it is served, says of them."""

    def __init__(self, world: ApiWorld, operation_id: str) -> None:
        self._declared = DeclaredReplies(world.app)
        responses = OPERATIONS[operation_id].definition.raw["responses"]
        self._success, self._failure = (
            _validator(responses["200"]),
            _validator(responses["default"]),
        )

    def check(self, response: httpx2.Response) -> None:
        self._declared.check(response)
        if not response.headers.get("content-type", "").startswith("application/json"):
            return
        validator = self._success if response.status_code == 200 else self._failure
        for line in response.content.splitlines():
            validator.validate(json.loads(line))


def _validator(response: Mapping[str, Any]) -> Draft202012Validator:
    schema = response.get("content", {}).get("application/json", {}).get("schema", {})
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


class Fuzz:
    """Sends what is generated, from a thread, to the application on its event loop."""

    def __init__(
        self, world: ApiWorld, known: Known, operation_id: str, *, tokens: Sequence[str] = ()
    ) -> None:
        """`tokens`: of those who send each request, one after the other; else the administrator does."""
        self._world, self._known = world, known
        self._tokens = tokens or [world.token]
        self._loop = asyncio.get_running_loop()
        self._operation = OPERATIONS[operation_id]
        self._answers = Answers(world, operation_id)
        self.answers: Counter[str] = Counter()
        """Statuses, and what errors say."""

    @property
    def granted(self) -> bool:
        return bool(self.answers[GRANTED] + self.answers[HELD])

    def run(self, mode: GenerationMode, number: int = EXAMPLES) -> None:
        self._run(mode, number)

    def run_until_granted(self) -> None:
        with suppress(Granted):
            self._run(GenerationMode.POSITIVE, MANY_EXAMPLES, until_granted=True)

    def _run(self, mode: GenerationMode, number: int, *, until_granted: bool = False) -> None:
        cases = self._operation.as_strategy(generation_mode=mode)

        @settings(
            max_examples=examples(number),
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases, seed=strategies.integers(0, 2**32))
        def check(case: Any, seed: int) -> None:
            draw = random.Random(seed)
            if mode is GenerationMode.POSITIVE and draw.random() < REAL_SHARE:
                self._make_real(case, {k: draw.choice(ids) for k, ids in self._known.items()})
            for token in self._tokens:
                self._ask(case, token)
            if until_granted and self.granted:
                raise Granted

        check()

    def _ask(self, case: Any, token: str) -> None:
        try:
            sent = asyncio.run_coroutine_threadsafe(self._send(case, token), self._loop)
            response = sent.result()
        except TimeoutError:
            self.answers[HELD] += 1
            return
        status = response.status_code
        self.answers[GRANTED if status == 200 else f"{status}: {response.text[:200]}"] += 1
        assert status < 500 or status in MAY_FAIL, case.as_curl_command()
        self._answers.check(response)

    def _make_real(self, case: Any, ids: Mapping[str, Any]) -> None:
        """`ids`: one that exists of each kind."""
        for part in (case.path_parameters, case.query, case.body):
            self._fill(part, ids)

    def _fill(self, node: Any, ids: Mapping[str, Any]) -> None:
        if isinstance(node, list):
            for item in node:
                self._fill(item, ids)
        if not isinstance(node, dict):
            return
        for key, value in node.items():
            kind = _kind(key, self._operation.path)
            if kind not in ids or isinstance(value, dict):
                self._fill(value, ids)
            else:
                node[key] = [ids[kind]] if isinstance(value, list) else ids[kind]

    async def _send(self, case: Any, token: str) -> httpx2.Response:
        sent = case.as_transport_kwargs(base_url="http://test")
        content = json.dumps(sent["json"]).encode() if "json" in sent else sent.get("data")
        async with asyncio.timeout(HELD_S):
            return await self._world.client.request(
                sent["method"],
                sent["url"].removeprefix("http://test"),
                params=sent.get("params"),
                content=content if isinstance(content, bytes | str) else None,
                headers={"Authorization": f"Bearer {token}"},
            )


def _kind(name: str, path: str) -> str:
    """Of what a key of a request holds the id. `id` of a path is of what the path is about."""
    of_a_task = path.partition("/{task_id}")[0].rpartition("/")[2]
    if name == "task_id" and of_a_task in INTERACTIVE:
        return of_a_task.removesuffix("s")
    if name == "id":
        name = path.partition("/{id}")[0].rpartition("/")[2].rstrip("s")
    if name in KINDS:
        return KINDS[name]
    return name.removesuffix("s").removesuffix("_id").removesuffix("Id")


@asynccontextmanager
async def fuzzed_world(
    folder: Path, *, roles: bool = False
) -> AsyncIterator[tuple[ApiWorld, Known]]:
    # The master reads checkpoints as their owner.
    open_way_to(folder / "checkpoints").parent.chmod(0o755)
    security = {"authz": {"type": "rbac"}} if roles else None
    async with api_world(folder, elastic=True, security=security) as world:
        await world.login()
        yield world, await populate(world, folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def read_world(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[ApiWorld, Known]]:
    """Of the operations that change nothing."""
    async with fuzzed_world(tmp_path_factory.mktemp("read")) as there:
        yield there


async def fuzz(world: ApiWorld, known: Known, operation_id: str) -> None:
    fuzz = Fuzz(world, known, operation_id)
    await asyncio.to_thread(fuzz.run, GenerationMode.POSITIVE)
    if operation_id not in SELDOM_GRANTED:
        if not fuzz.granted and operation_id not in NEVER_GRANTED:
            await asyncio.to_thread(fuzz.run_until_granted)
        if operation_id in NEVER_GRANTED:
            assert not fuzz.answers[GRANTED], fuzz.answers
        else:
            assert fuzz.granted, fuzz.answers
    with suppress(Unsatisfiable):  # of some operations nothing can be invalid
        await asyncio.to_thread(fuzz.run, GenerationMode.NEGATIVE)


READING = [id_ for id_, operation in OPERATIONS.items() if operation.method == "get"]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("operation_id", READING)
async def test_generated_questions_are_answered_as_described(
    read_world: tuple[ApiWorld, Known], operation_id: str
) -> None:
    await fuzz(*read_world, operation_id)


@pytest.mark.slow
@pytest.mark.parametrize("operation_id", [id_ for id_ in OPERATIONS if id_ not in READING])
async def test_generated_requests_are_answered_as_described(
    tmp_path: Path, operation_id: str
) -> None:
    async with fuzzed_world(tmp_path) as (world, known):
        await fuzz(world, known, operation_id)


SHARED = (
    *("groups", "roles", "workspaces", "projects", "templates", "config", "resource", "models"),
    *("webhooks", "user", "users", "access", "sessions"),
)
"""Beginnings of the ids of operations on what people share; last those that may end the sessions of who asks."""
FEW = 3


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[ApiWorld, Known, Sequence[str]]]:
    """With roles. The tokens of a member of the first workspace, and of a stranger."""
    async with fuzzed_world(tmp_path_factory.mktemp("shared"), roles=True) as (world, known):
        tokens: list[str] = []
        mine = world.token
        for name in ("member", "stranger"):
            user = {"user": {"username": name, "active": True}, "password": PASSWORD}
            made = await world.ok("POST", "/api/v1/users", {**user, "isHashed": False})
            if name == "member":
                given = {"role": {"roleId": 5}, "scopeWorkspaceId": 1}
                one = {"userId": made["user"]["id"], "roleAssignment": given}
                body = {"userRoleAssignments": [one]}
                await world.ok("POST", "/api/v1/roles/add-assignments", body)
            tokens.append(await world.login(name))
            world.token = mine
        yield world, known, tokens


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("noun", SHARED)
async def test_members_and_strangers_fail_nothing(
    shared_world: tuple[ApiWorld, Known, Sequence[str]], noun: str
) -> None:
    world, known, tokens = shared_world
    found = [id_ for id_ in OPERATIONS if id_.startswith(f"{noun}_")]
    assert found
    for operation_id in found:
        fuzz = Fuzz(world, known, operation_id, tokens=tokens)
        await asyncio.to_thread(fuzz.run, GenerationMode.POSITIVE, FEW)
        assert fuzz.answers
