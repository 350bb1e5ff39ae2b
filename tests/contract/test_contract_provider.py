"""What every provider promises, on every provider that can run here.

The embedded provider starts a stand-in for the real host: it writes `host.state`, starts one child, and waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from provisioner.providers.base import (
    FoundInstance,
    FoundState,
    LaunchAnswer,
    LaunchIntent,
    LaunchResult,
    Provider,
)
from provisioner.providers.embedded import EmbeddedProvider, InstanceType
from provisioner.providers.simulated import SimulatedProvider
from provisioner.types import Offer
from tests.fakes.fleet_world import CLUSTER, an_intent, an_offer
from windlass.base.clock import SystemClock
from windlass.base.errors import CapacityError
from windlass.base.processes import marked_processes, start_time, sweep

STAND_IN = """
import json, os, subprocess, sys, time
directory = sys.argv[-1]
with open("/proc/self/stat") as f:
    started = int(f.read().rpartition(")")[2].split()[19])
boot = open("/proc/sys/kernel/random/boot_id").read().strip()
with open(directory + "/.state", "w") as f:
    json.dump({"pid": os.getpid(), "start_time": started, "boot_id": boot}, f)
os.replace(directory + "/.state", directory + "/host.state")
task = subprocess.Popen(["sleep", "600"], start_new_session=True)
print("started", task.pid, "\\n", "secret" in "".join(os.environ), flush=True)
with open(directory + "/ready", "w") as f:
    f.write(str(task.pid))
time.sleep(600)
"""
DYING = "print('cannot boot: no disk'); raise SystemExit(3)"
TOKEN_A, TOKEN_B = uuid.uuid4().hex, uuid.uuid4().hex
"""Ids come from tokens and processes are found by ids: two test runs on one machine must not share any."""


Make: TypeAlias = Callable[..., Awaitable[EmbeddedProvider]]


class Given:
    """One provider and what the suite needs to know of it."""

    def __init__(
        self,
        provider: Provider,
        *,
        kill: Callable[[str], None],
        take_back: Callable[[str, float], None],
        reconfigure: Callable[[], None],
    ) -> None:
        self.provider = provider
        self.kill = kill
        """The machine dies by itself."""
        self.take_back = take_back
        """The provider announces that it takes the machine back so many seconds from now."""
        self.reconfigure = reconfigure
        """What launches are made of changes, as after a restart with another configuration."""

    @property
    def offer(self) -> Offer:
        return (self.provider.offers("gpu") or ())[0]

    def intent(self, count: int = 1, token: str = TOKEN_A) -> LaunchIntent:
        return frozen(self.provider, an_intent(self.offer, count, token=token, generation=7))

    async def launch(self, intent: LaunchIntent) -> LaunchResult:
        return delivered(await self.provider.launch(intent))

    async def living(self) -> dict[str, FoundInstance]:
        found = await self.provider.list()
        return {x.instance_id: x for x in found.instances if x.state is not FoundState.ENDED}


def frozen(provider: Provider, intent: LaunchIntent) -> LaunchIntent:
    return replace(intent, request=provider.freeze(intent))


def delivered(answer: LaunchAnswer) -> LaunchResult:
    assert isinstance(answer, LaunchResult)
    return answer


async def launched(provider: Provider, intent: LaunchIntent) -> tuple[str, ...]:
    """Answered at once, as it is here."""
    return delivered(await provider.launch(frozen(provider, intent))).instance_ids


GPU_2 = InstanceType(name="gpu-2", slots=2, usd_per_hour=3.0, boot_s=1.5)


def embedded(
    root: Path, program: str = STAND_IN, types: Sequence[InstanceType] = (GPU_2,)
) -> EmbeddedProvider:
    return EmbeddedProvider(
        root=root,
        name="gpu",
        cluster_id=CLUSTER,
        clock=SystemClock(),
        types={"gpu": types},
        master_url="http://127.0.0.1:1",
        join_token=lambda *_: "join-me",
        host_argv=(sys.executable, "-P", "-c", program),
    )


def own_intent(provider: Provider, count: int = 1) -> LaunchIntent:
    return an_intent((provider.offers("gpu") or ())[0], count, token=TOKEN_A)


def host_pid(root: Path, instance_id: str) -> int:
    pid: int = json.loads((root / instance_id / "host.state").read_bytes())["pid"]
    return pid


def environment_and_command(pid: int) -> tuple[bytes, bytes]:
    process = Path(f"/proc/{pid}")
    return (process / "environ").read_bytes(), (process / "cmdline").read_bytes()


def directories_in(root: Path) -> list[str]:
    return [entry.name for entry in root.iterdir()]


async def ready(root: Path, *instance_ids: str) -> None:
    """Until the stand-ins have started what they start."""
    async with asyncio.timeout(60):
        for instance_id in instance_ids:
            path = root / instance_id / "ready"
            while not (path.exists() and path.read_text()):  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.02)


async def ended(pid: int) -> None:
    async with asyncio.timeout(30):
        while start_time(pid) is not None:  # noqa: ASYNC110 - no child of ours
            await asyncio.sleep(0.02)


async def listed(provider: Provider) -> Sequence[FoundInstance]:
    return (await provider.list()).instances


async def clear(provider: EmbeddedProvider) -> None:
    await provider.terminate([found.instance_id for found in await listed(provider)])


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes embedded providers below `tmp_path`; whatever a test leaves running is ended."""
    made: list[EmbeddedProvider] = []

    async def one(
        root: Path = tmp_path,
        program: str = STAND_IN,
        types: Sequence[InstanceType] = (GPU_2,),
    ) -> EmbeddedProvider:
        made.append(embedded(root, program, types))
        await made[-1].open()
        return made[-1]

    yield one
    for provider in made:
        await clear(provider)
        await provider.close()
    for token in (TOKEN_A, TOKEN_B):
        for number in range(3):
            sweep("WINDLASS_INSTANCE_ID", f"gpu-{token[:8]}-{number}")


@pytest.fixture(params=["simulated", "embedded"])
async def given(request: pytest.FixtureRequest, make: Make, tmp_path: Path) -> AsyncIterator[Given]:
    if request.param == "simulated":
        cloud = SimulatedProvider(
            offers={"gpu": [an_offer(2, 3.0)]},
            clock=SystemClock(),
            cluster_id=CLUSTER,
            list_grace_s=0.0,
        )

        def announce(instance_id: str, seconds: float) -> None:
            now = SystemClock().now().timestamp()
            cloud.instances[instance_id].leaves_at = now + seconds

        yield Given(
            cloud,
            kill=cloud.kill,
            take_back=announce,
            reconfigure=lambda: setattr(cloud, "settings", "v2"),
        )
        cloud.drop_timers()
        return
    provider = await make()

    def kill(instance_id: str) -> None:
        with suppress(ProcessLookupError):
            os.kill(provider._children[instance_id].pid, signal.SIGKILL)
        provider._children[instance_id].wait()

    def notice(instance_id: str, seconds: float) -> None:
        (tmp_path / instance_id / "notice").write_text(str(seconds))

    yield Given(
        provider,
        kill=kill,
        take_back=notice,
        reconfigure=lambda: setattr(provider, "_master_url", "http://127.0.0.1:2"),
    )


async def test_offers_are_complete(given: Given) -> None:
    assert given.offer.slots == 2
    assert given.offer.usd_per_hour == 3.0
    assert given.offer.boot_s > 0
    assert given.offer.key.provider


async def test_a_launch_makes_all_machines_and_tags_them(given: Given) -> None:
    result = await given.launch(given.intent(3))
    assert len(set(result.instance_ids)) == 3
    found = await given.living()
    assert set(found) == set(result.instance_ids)
    for instance in found.values():
        assert instance.cluster_id == CLUSTER
        assert instance.pool == "gpu"
        assert instance.intent_id == given.intent().intent_id
        assert instance.generation == 7
        assert instance.offer_key == given.offer.key
        assert instance.created_at > 0


async def test_the_same_token_answers_with_the_same_machines(given: Given) -> None:
    first = await given.launch(given.intent(2))
    again = await given.launch(given.intent(2))
    assert again == first
    assert len(await given.living()) == 2
    other = await given.launch(given.intent(1, TOKEN_B))
    assert not set(other.instance_ids) & set(first.instance_ids)
    assert len(await given.living()) == 3


async def test_launches_with_one_token_at_once_make_one_group(given: Given) -> None:
    results = await asyncio.gather(*(given.launch(given.intent(2)) for _ in range(4)))
    assert len({result.instance_ids for result in results}) == 1
    assert len(await given.living()) == 2


async def test_terminate_ends_exactly_those_and_can_be_repeated(given: Given) -> None:
    result = await given.launch(given.intent(2))
    one, other = result.instance_ids
    await given.provider.terminate([one])
    assert set(await given.living()) == {other}
    await given.provider.terminate([one, "never-was"])
    await given.provider.terminate([])
    assert set(await given.living()) == {other}
    await given.provider.terminate([other])
    assert not await given.living()


async def test_a_machine_that_died_is_not_alive_in_lists(given: Given) -> None:
    result = await given.launch(given.intent(2))
    given.kill(result.instance_ids[0])
    assert set(await given.living()) == {result.instance_ids[1]}
    assert set(await given.living()) == {result.instance_ids[1]}


async def test_a_repetition_after_a_changed_configuration_makes_nothing_new(given: Given) -> None:
    intent = given.intent(2)
    first = await given.launch(intent)
    given.reconfigure()
    assert await given.launch(intent) == first
    assert len(await given.living()) == 2


async def test_what_is_frozen_holds_no_secret_and_is_plain_json(given: Given) -> None:
    request = given.intent().request
    assert json.loads(json.dumps(request)) == request
    assert "join-me" not in json.dumps(request)


async def test_tags_say_what_a_machine_has_and_costs(given: Given) -> None:
    (instance_id,) = (await given.launch(given.intent())).instance_ids
    found = (await given.living())[instance_id]
    assert (found.slots, found.usd_per_hour) == (2, 3.0)
    assert found.started_at is not None


async def test_a_machine_that_is_taken_back_is_announced_and_then_gone(given: Given) -> None:
    stays, goes = (await given.launch(given.intent(2))).instance_ids
    given.take_back(goes, 3600.0)
    found = await given.living()
    assert found[stays].leaves_at is None
    assert found[goes].leaves_at is not None
    assert found[goes].leaves_because
    given.take_back(goes, -1.0)
    assert set(await given.living()) == {stays}


async def test_a_pool_that_buys_nothing_here_is_sold_nothing(given: Given) -> None:
    assert given.provider.offers("another") == ()


async def test_an_unknown_handle_is_cancelled_with_success(given: Given) -> None:
    await given.provider.cancel("never-was")
    assert not (await given.provider.list()).groups


async def test_it_can_be_closed_and_opened_again(given: Given) -> None:
    ids = (await given.launch(given.intent())).instance_ids
    await given.provider.close()
    await given.provider.open()
    assert set(await given.living()) == set(ids)


async def test_embedded_keeps_secrets_private_and_out_of_the_environment(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DB_PASSWORD", "secret")
    provider = await make()
    (instance_id,) = await launched(provider, own_intent(provider))
    await ready(tmp_path, instance_id)
    directory = tmp_path / instance_id
    assert stat.S_IMODE((directory / "host.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    told = json.loads((directory / "host.json").read_text())
    assert told["boot_s"] == 1.5
    assert told["agent"]["join_token"] == "join-me"
    assert told["agent"]["agent_id"] == told["instance_id"] == instance_id
    assert told["agent"]["artificial_slots"] == 2
    environment, command = environment_and_command(host_pid(tmp_path, instance_id))
    assert b"secret" not in environment
    assert f"WINDLASS_INSTANCE_ID={instance_id}".encode() in environment.split(b"\0")
    assert b"join-me" not in command


async def test_embedded_ids_come_from_the_token(make: Make) -> None:
    provider = await make()
    assert await launched(provider, own_intent(provider, 2)) == tuple(
        f"gpu-{TOKEN_A[:8]}-{i}" for i in range(2)
    )


async def test_embedded_a_restarted_master_finds_and_ends_what_it_started(
    make: Make, tmp_path: Path
) -> None:
    before = await make()
    intent = own_intent(before, 2)
    ids = await launched(before, intent)
    await ready(tmp_path, *ids)
    hosts = [host_pid(tmp_path, id_) for id_ in ids]
    after = await make()
    assert {x.instance_id: x.state for x in await listed(after)} == dict.fromkeys(
        ids, FoundState.RUNNING
    )
    assert await launched(after, intent) == ids
    assert [host_pid(tmp_path, id_) for id_ in ids] == hosts
    await after.terminate(ids)
    assert [start_time(pid) for pid in hosts] == [None, None]
    assert not await listed(after)
    await listed(before)


async def test_embedded_a_crash_between_directory_and_process_is_repaired(
    make: Make, tmp_path: Path
) -> None:
    provider = await make()
    intent = own_intent(provider)
    (instance_id,) = await launched(provider, intent)
    await ready(tmp_path, instance_id)
    kept = (tmp_path / instance_id / "instance.json").read_bytes()
    await provider.terminate([instance_id])
    (tmp_path / instance_id).mkdir()
    (tmp_path / instance_id / "instance.json").write_bytes(kept)
    again = await make()
    assert await launched(again, intent) == (instance_id,)
    await ready(tmp_path, instance_id)
    assert [x.state for x in await listed(again)] == [FoundState.RUNNING]


@pytest.mark.parametrize("change", ["{", "format"])
async def test_embedded_an_instance_that_cannot_be_read_is_ended_and_kept(
    change: str, make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (instance_id,) = await launched(await make(), own_intent(await make()))
    await ready(tmp_path, instance_id)
    host, file = host_pid(tmp_path, instance_id), tmp_path / instance_id / "instance.json"
    newer = file.read_text().replace('"format":1', '"format":2')
    file.write_text(newer if change == "format" else change)
    assert await listed(await make()) == ()
    await ended(host)
    kept = tmp_path / f".unreadable-{instance_id}"
    assert (kept / "host.json").exists()
    assert f"{file} cannot be read" in caplog.text
    assert await listed(await make()) == ()
    assert kept.exists()


async def test_embedded_the_end_of_a_host_is_the_end_of_all_below_it(
    make: Make, tmp_path: Path
) -> None:
    """Its task left session and group; its environment still names it."""
    provider = await make()
    (instance_id,) = await launched(provider, own_intent(provider))
    await ready(tmp_path, instance_id)
    task = int((tmp_path / instance_id / "ready").read_text())
    host = host_pid(tmp_path, instance_id)
    os.kill(host, signal.SIGKILL)
    await ended(host)
    (found,) = await listed(provider)
    assert found.state is FoundState.ENDED
    assert "its host process ended" in found.detail
    await ended(task)
    assert not marked_processes("WINDLASS_INSTANCE_ID", instance_id)
    assert not (tmp_path / instance_id).exists()
    assert await listed(provider) == ()


async def test_embedded_terminate_leaves_no_process(make: Make, tmp_path: Path) -> None:
    provider = await make()
    (instance_id,) = await launched(provider, own_intent(provider))
    await ready(tmp_path, instance_id)
    await provider.terminate([instance_id])
    assert not marked_processes("WINDLASS_INSTANCE_ID", instance_id)
    assert directories_in(tmp_path) == []


async def test_embedded_a_host_that_cannot_boot_ends_with_its_last_words(
    make: Make, tmp_path: Path
) -> None:
    provider = await make(program=DYING)
    (instance_id,) = await launched(provider, own_intent(provider))
    async with asyncio.timeout(30):
        while not (found := [x for x in await listed(provider) if x.state is FoundState.ENDED]):  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.02)
    assert found[0].instance_id == instance_id
    assert "no disk" in found[0].detail


async def test_embedded_a_launch_that_fails_half_way_leaves_nothing(
    make: Make, tmp_path: Path
) -> None:
    provider = await make()
    intent = own_intent(provider, 2)
    (tmp_path / f"gpu-{intent.token[:8]}-1").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        await launched(provider, intent)
    assert await listed(provider) == ()
    assert not marked_processes("WINDLASS_INSTANCE_ID", f"gpu-{intent.token[:8]}-0")


async def test_embedded_ends_a_host_whose_environment_is_not_readable_yet(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is for a moment after its start: a sweep for its id does not find it."""
    provider = await make()
    intent = own_intent(provider, 2)
    (tmp_path / f"gpu-{intent.token[:8]}-1").write_text("in the way")
    monkeypatch.setattr("provisioner.providers.embedded.sweep", lambda *_: None)
    with pytest.raises(OSError, match="exists"):
        await launched(provider, intent)
    assert not marked_processes("WINDLASS_INSTANCE_ID", f"gpu-{intent.token[:8]}-0")


async def test_embedded_shows_only_its_own_cluster(make: Make) -> None:
    provider = await make()
    theirs = replace(own_intent(provider), cluster_id="theirs")
    ids = await launched(provider, theirs)
    assert await listed(provider) == ()
    await provider.terminate(ids)


async def test_embedded_never_touches_what_is_not_below_its_root(
    make: Make, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    provider = await make(tmp_path / "root")
    await launched(provider, own_intent(provider))
    await provider.terminate(["../outside", ".", "..", "/tmp"])
    assert outside.exists()
    assert len(await listed(provider)) == 1


async def test_embedded_offers_every_type_and_runs_out_of_stock(make: Make) -> None:
    scarce = InstanceType(name="scarce", slots=4, usd_per_hour=2.0, boot_s=1.5, available=1)
    provider = await make(types=(GPU_2, scarce))
    plenty, rare = provider.offers("gpu") or ()
    assert [(o.key.instance_type, o.slots, o.usd_per_hour) for o in (plenty, rare)] == [
        ("gpu-2", 2, 3.0),
        ("scarce", 4, 2.0),
    ]
    with pytest.raises(CapacityError, match="scarce is out of stock: requested 2, available 1"):
        await launched(provider, an_intent(rare, 2, token=TOKEN_B))
    first = an_intent(rare, 1, token=TOKEN_A)
    ids = await launched(provider, first)
    assert await launched(provider, first) == ids, "the same call again is no second one"
    with pytest.raises(CapacityError, match="requested 1, available 0"):
        await launched(provider, an_intent(rare, 1, token=TOKEN_B))
    await launched(provider, an_intent(plenty, 1, token=TOKEN_B))
    await provider.terminate(ids)
    again = an_intent(rare, 1, token=uuid.uuid4().hex)
    assert len(await launched(provider, again)) == 1
