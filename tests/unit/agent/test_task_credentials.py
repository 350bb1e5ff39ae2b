"""What the agent hands tasks of its machine's role: whose tokens count, how often anybody asks, and in which words."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agent_bootstrap.agent.membership.leave import OWN_FILES
from agent_bootstrap.agent.metadata import broker as broker_module
from agent_bootstrap.agent.metadata import closing
from agent_bootstrap.agent.metadata.broker import AWS_PATH, Broker, TaskTokens
from agent_bootstrap.agent.metadata.closing import closable_address
from agent_bootstrap.agent.metadata.credentials import (
    AWS_EARLY,
    CLOUD_SCOPE,
    PAUSE_S,
    STORAGE_SCOPE,
    AwsRole,
    CachedAnswer,
    GoogleAccount,
    NoRole,
    Secret,
    storage_scopes,
)
from agent_bootstrap.agent.metadata.kinds import Cloud, TaskMetadata
from agent_bootstrap.agent.metadata.services import Ec2Service, GceService
from agent_bootstrap.agent.metadata.tasks import PORT_FILE, MetadataOfTasks
from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.container_options import ContainerOptions
from agent_bootstrap.protocol import ContainerSpec, ExitFailure
from master.config import MasterConfig
from master.wiring.machine_boots import ALONE, boot_settings
from tests.fakes.ec2_metadata import ec2_metadata
from tests.fakes.gce.metadata import gce_metadata
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidConfig

TOKENS = TaskTokens("the agent's credential")
FULL_CONTROL = "https://www.googleapis.com/auth/devstorage.full_control"
LOGS = "https://www.googleapis.com/auth/logging.write"


class Source:
    """Makes secrets that are good for an hour; refuses while it is down."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.asked = 0
        self.is_down = False

    async def __call__(self) -> Secret:
        self.asked += 1
        if self.is_down:
            raise OSError("no route")
        return Secret({"number": self.asked}, self._clock.now() + timedelta(hours=1))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(clock: ManualClock) -> Source:
    return Source(clock)


@pytest.fixture
def kept(source: Source, clock: ManualClock) -> CachedAnswer:
    return CachedAnswer(source, clock, early=AWS_EARLY)


async def number(kept: CachedAnswer) -> object:
    return (await kept.get()).document["number"]


async def test_credentials_are_kept_until_shortly_before_they_expire(
    kept: CachedAnswer, clock: ManualClock
) -> None:
    assert [await number(kept) for _ in range(100)] == [1] * 100
    clock.advance(3600 - AWS_EARLY.total_seconds() - 1)
    assert await number(kept) == 1
    clock.advance(2)
    assert await number(kept) == 2


async def test_a_service_that_refuses_is_asked_now_and_then_while_what_is_kept_is_good(
    kept: CachedAnswer, source: Source, clock: ManualClock
) -> None:
    await kept.get()
    source.is_down = True
    clock.advance(3600 - 60)
    assert [await number(kept) for _ in range(100)] == [1] * 100
    assert source.asked == 2
    clock.advance(PAUSE_S)
    assert await number(kept) == 1
    assert source.asked == 3
    clock.advance(60)
    for _ in range(2):
        with pytest.raises(OSError, match="no route"):
            await kept.get()
    assert source.asked == 4
    source.is_down = False
    clock.advance(PAUSE_S)
    assert await number(kept) == 5


@pytest.mark.parametrize(
    ("scopes", "found"),
    [
        ([CLOUD_SCOPE, LOGS], [STORAGE_SCOPE]),
        ([FULL_CONTROL, LOGS], [FULL_CONTROL]),
        ([STORAGE_SCOPE], [STORAGE_SCOPE]),
    ],
)
def test_tokens_of_google_are_for_storage_only(scopes: list[str], found: list[str]) -> None:
    assert storage_scopes(scopes) == found


def test_an_account_without_storage_says_what_it_lacks() -> None:
    with pytest.raises(NoRole, match=r"add cloud-platform to service_account\.scopes"):
        storage_scopes([LOGS])


@pytest.mark.parametrize(
    "token", ["", "c1", "c1~", "~", f"c1~{'0' * 64}", TOKENS.of("c1") + "0", "é"]
)
def test_a_token_that_nobody_was_given_is_nobodys(token: str) -> None:
    assert TOKENS.container(token) is None
    assert TaskTokens("another agent").container(TOKENS.of("c1")) is None


def test_a_token_is_good_after_a_restart_of_the_agent() -> None:
    assert TaskTokens("the agent's credential").container(TOKENS.of("c1")) == "c1"


Ask = Callable[..., Awaitable[tuple[int, str]]]


def asker(broker: Broker) -> Ask:
    async def ask(target: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = await broker.answer(method, target, given)
        return reply.status, reply.text

    return ask


async def test_tasks_of_a_machine_of_aws(clock: ManualClock) -> None:
    running = {"c1", "c2"}
    with ec2_metadata() as metadata:
        metadata.add_role("i-1", "agents")
        role = AwsRole(Ec2Service(metadata.url("i-1")), clock)
        ask = asker(Broker(role, TOKENS, running.__contains__, clock))
        status, text = await ask(AWS_PATH, authorization=TOKENS.of("c1"))
        assert status == 200
        assert json.loads(text)["AccessKeyId"] == "AK-of-i-1"
        assert set(json.loads(text)) == {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
        assert (await ask(AWS_PATH))[0] == 403
        assert (await ask("/latest/user-data", authorization=TOKENS.of("c1")))[0] == 404
        assert (await ask(AWS_PATH, "POST", authorization=TOKENS.of("c1")))[0] == 405
        running.remove("c1")
        assert await ask(AWS_PATH, authorization=TOKENS.of("c1")) == (
            403,
            '{"message": "the task has ended"}',
        )
        assert (await ask(AWS_PATH, authorization=TOKENS.of("c2")))[0] == 200


@pytest.mark.parametrize("target", ["//[", "http://[", "*", "?", "//%00"])
async def test_a_target_that_is_no_path_is_refused(target: str, clock: ManualClock) -> None:
    for role in (
        AwsRole(Ec2Service("http://x"), clock),
        GoogleAccount(GceService("http://x"), clock),
    ):
        ask = asker(Broker(role, TOKENS, lambda _: True, clock))
        assert (await ask(target, metadata_flavor="Google"))[0] in (403, 404)


async def test_a_machine_without_a_role_says_the_way_out(clock: ManualClock) -> None:
    with ec2_metadata() as metadata:
        role = AwsRole(Ec2Service(metadata.url("i-1")), clock)
        assert not await role.exists()
        ask = asker(Broker(role, TOKENS, lambda _: True, clock))
        status, text = await ask(AWS_PATH, authorization=TOKENS.of("c1"))
    assert status == 404
    assert "set iam_instance_profile_arn of its pool" in text


async def test_one_task_that_asks_too_often_does_not_stop_another(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "BURST", 3.0)
    with ec2_metadata() as metadata:
        metadata.add_role("i-1", "agents")
        role = AwsRole(Ec2Service(metadata.url("i-1")), clock)
        ask = asker(Broker(role, TOKENS, lambda _: True, clock))
        said = [(await ask(AWS_PATH, authorization=TOKENS.of("c1")))[0] for _ in range(4)]
        assert said == [200, 200, 200, 429]
        assert (await ask(AWS_PATH, authorization=TOKENS.of("c2")))[0] == 200
        clock.advance(1)
        assert (await ask(AWS_PATH, authorization=TOKENS.of("c1")))[0] == 200


async def test_tasks_of_a_machine_of_google(clock: ManualClock) -> None:
    with gce_metadata() as metadata:
        metadata.add_account("gpu-1", CLOUD_SCOPE)
        account = GoogleAccount(GceService(metadata.url("gpu-1")), clock)
        ask = asker(Broker(account, TOKENS, lambda _: True, clock))
        own = f"/{TOKENS.of('c1')}/computeMetadata/v1"
        flavor = {"metadata_flavor": "Google"}
        account_path = f"{own}/instance/service-accounts/default"
        status, text = await ask(f"{account_path}/token?scopes={CLOUD_SCOPE}", **flavor)
        assert status == 200
        assert json.loads(text)["access_token"] == "token-of-gpu-1"
        assert metadata.token_scopes == [STORAGE_SCOPE], "whatever a task asks for"
        clock.advance(100)
        status, text = await ask(f"{account_path}/token", **flavor)
        assert json.loads(text)["expires_in"] == 2900
        assert await ask(f"{account_path}/scopes", **flavor) == (200, f"{STORAGE_SCOPE}\n")
        by_name = f"{own}/instance/service-accounts/agents@acme.example/email"
        assert await ask(by_name, **flavor) == (200, "agents@acme.example")
        assert await ask(f"{own}/project/project-id", **flavor) == (200, "acme")
        metadata.set("gpu-1", "project/project-id", "asked again")
        assert await ask(f"{own}/project/project-id", **flavor) == (200, "acme")
        assert (await ask(f"{own}/instance/attributes/startup-script", **flavor))[0] == 404
        assert (await ask(f"{account_path}/identity?audience=x", **flavor))[0] == 404
        assert (await ask(f"{account_path}/token"))[0] == 403
        nobody = "/nobody~0/computeMetadata/v1/instance/service-accounts/default/token"
        assert (await ask(nobody, **flavor))[0] == 403
        assert (await ask("/", **flavor)) == (200, "")


def spec(**environment: str) -> ContainerSpec:
    return ContainerSpec(
        container_id="c1",
        allocation_id="t.1",
        task_id="t",
        task_type="TRIAL",
        entrypoint=("true",),
        environment=environment,
    )


async def opened(url: str, cloud: Cloud, work_dir: Path, clock: ManualClock) -> MetadataOfTasks:
    made = MetadataOfTasks(
        TaskMetadata.STORAGE, cloud, url, work_dir=work_dir, secret="s", clock=clock, proxies={}
    )
    await made.open(lambda _: True)
    return made


async def test_what_a_task_sets_itself_stays(tmp_path: Path, clock: ManualClock) -> None:
    with ec2_metadata() as metadata:
        metadata.add_role("i-1", "agents")
        tasks = await opened(metadata.url("i-1"), Cloud.AWS, tmp_path, clock)
        try:
            own = spec(AWS_CONTAINER_CREDENTIALS_FULL_URI="http://127.0.0.1:1/mine")
            assert tasks.given_to(own) == own
            plain = tasks.given_to(spec(A="b"))
            assert "NO_PROXY" not in plain.environment
            assert plain.environment["A"] == "b"
            proxied = tasks.given_to(spec(https_proxy="p", http_proxy="p", no_proxy="here"))
            assert proxied.environment["no_proxy"] == "here,127.0.0.1,169.254.170.2"
        finally:
            await tasks.close()


async def test_tasks_find_the_agent_that_follows_at_the_same_address(
    tmp_path: Path, clock: ManualClock
) -> None:
    with ec2_metadata() as metadata:
        metadata.add_role("i-1", "agents")
        seen = []
        for _ in range(2):
            tasks = await opened(metadata.url("i-1"), Cloud.AWS, tmp_path, clock)
            seen.append(tasks.given_to(spec()))
            await tasks.close()
    assert seen[0] == seen[1]
    assert PORT_FILE in OWN_FILES, "gone when the agent leaves"
    assert "AWS_CONTAINER_AUTHORIZATION_TOKEN" in seen[0].environment


async def test_a_machine_without_a_role_gives_tasks_nothing(
    tmp_path: Path, clock: ManualClock
) -> None:
    with ec2_metadata() as metadata:
        tasks = await opened(metadata.url("i-1"), Cloud.AWS, tmp_path, clock)
        assert tasks.given_to(spec()) == spec()
        await tasks.close()


def test_the_pool_says_what_its_machines_tell_tasks() -> None:
    provider = {"type": "aws", "region": "us-east-1", "instance_type": "g4dn.xlarge"}
    pools = [
        {"pool_name": "a", "provider": {**provider, "agent_config_file_contents": {"label": "x"}}},
        {"pool_name": "b", "provider": provider, "task_metadata": "none"},
    ]
    config = MasterConfig.model_validate({"resource_pools": pools})
    made = boot_settings(config.pools())
    by_pool = {pool: settings.agent for (pool, _, _), settings in made.items()}
    assert by_pool["a"] == {**ALONE, "label": "x", "task_metadata": "storage"}
    assert by_pool["b"] == {**ALONE, "task_metadata": "none"}


@pytest.mark.parametrize("host", ["metadata.google.internal", "[fd00:ec2::254]"])
def test_tasks_are_kept_from_an_ipv4_address_only(host: str) -> None:
    given = {"master_host": "m", "metadata_service": f"http://{host}"}
    assert parse_options(given).task_metadata is TaskMetadata.DIRECT
    with pytest.raises(InvalidConfig, match=r"write http://169\.254\.169\.254"):
        parse_options({**given, "task_metadata": "storage"})


async def test_a_machine_that_cannot_be_closed_starts_no_task_and_says_why(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    tasks = MetadataOfTasks(
        TaskMetadata.NONE,
        Cloud.AWS,
        "http://169.254.169.254",
        work_dir=tmp_path,
        secret="s",
        clock=clock,
        proxies={},
    )
    await tasks.open(lambda _: True)
    (note,) = tasks.notes()
    assert note == (
        "this machine cannot keep tasks from the metadata service http://169.254.169.254: ip (iproute2) cannot be run: "
        "No such file or directory; set task_metadata: direct in the pool to let tasks ask it"
    )
    with pytest.raises(StartRefused) as refused:
        await tasks.admit(spec())
    assert str(refused.value) == note
    assert refused.value.failure is ExitFailure.ABORTED, "no failure of the task's"
    assert tasks.given_to(spec()) == spec(), "none: no credentials either"
    capable = spec().model_copy(
        update={"options": ContainerOptions(add_capabilities=("CAP_NET_ADMIN",))}
    )
    with pytest.raises(StartRefused, match="with NET_ADMIN a task on the machine's network"):
        await tasks.admit(capable)
    await tasks.close()


async def test_ports_of_the_agent_must_be_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "ROOTS_PORTS", tmp_path / "first")
    (tmp_path / "first").write_text("80\n")
    with pytest.raises(closing.CannotClose, match="any user have the agent's ports: set 1024"):
        await closing.MetadataRules("169.254.169.254").require(root=False)


def test_only_a_machines_own_service_is_closed() -> None:
    assert closable_address("http://169.254.169.254") == "169.254.169.254"
    assert closable_address("http://127.0.0.1:4711/i-1") is None
    with pytest.raises(ValueError, match="does not appear to be"):
        closable_address("http://metadata.google.internal")
