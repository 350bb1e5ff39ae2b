"""What only the embedded provider has: processes, directories, and what becomes of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from provisioner.providers.base import FoundInstance, FoundState, LaunchIntent, Provider
from provisioner.providers.embedded import InstanceType
from tests.contract.providers.base import a_token, delivered
from tests.contract.providers.embedded import GPU_2, Site
from tests.fakes.fleet_world import an_intent
from windlass.base.errors import CapacityError
from windlass.base.processes import marked_processes, start_time

DYING = "print('cannot boot: no disk'); raise SystemExit(3)"


def own_intent(provider: Provider, count: int = 1) -> LaunchIntent:
    return an_intent((provider.offers("gpu") or ())[0], count, token=a_token())


async def launched(provider: Provider, intent: LaunchIntent) -> tuple[str, ...]:
    """Answered at once, as it is here."""
    call = replace(intent, request=provider.freeze(intent))
    return delivered(await provider.launch(call)).instance_ids


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


async def test_keeps_secrets_private_and_out_of_the_environment(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DB_PASSWORD", "secret")
    provider = await site.provider()
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


async def test_ids_come_from_the_token(site: Site) -> None:
    provider = await site.provider()
    intent = own_intent(provider, 2)
    assert await launched(provider, intent) == tuple(
        f"gpu-{intent.token[:8]}-{i}" for i in range(2)
    )


async def test_a_restarted_master_finds_and_ends_what_it_started(
    site: Site, tmp_path: Path
) -> None:
    before = await site.provider()
    intent = own_intent(before, 2)
    ids = await launched(before, intent)
    await ready(tmp_path, *ids)
    hosts = [host_pid(tmp_path, id_) for id_ in ids]
    after = await site.provider()
    assert {x.instance_id: x.state for x in await listed(after)} == dict.fromkeys(
        ids, FoundState.RUNNING
    )
    assert await launched(after, intent) == ids
    assert [host_pid(tmp_path, id_) for id_ in ids] == hosts
    await after.terminate(ids)
    assert [start_time(pid) for pid in hosts] == [None, None]
    assert not await listed(after)
    await listed(before)


async def test_a_crash_between_directory_and_process_is_repaired(
    site: Site, tmp_path: Path
) -> None:
    provider = await site.provider()
    intent = own_intent(provider)
    (instance_id,) = await launched(provider, intent)
    await ready(tmp_path, instance_id)
    kept = (tmp_path / instance_id / "instance.json").read_bytes()
    await provider.terminate([instance_id])
    (tmp_path / instance_id).mkdir()
    (tmp_path / instance_id / "instance.json").write_bytes(kept)
    again = await site.provider()
    assert await launched(again, intent) == (instance_id,)
    await ready(tmp_path, instance_id)
    assert [x.state for x in await listed(again)] == [FoundState.RUNNING]


@pytest.mark.parametrize("change", ["{", "format"])
async def test_an_instance_that_cannot_be_read_is_ended_and_kept(
    change: str, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (instance_id,) = await launched(await site.provider(), own_intent(await site.provider()))
    await ready(tmp_path, instance_id)
    host, file = host_pid(tmp_path, instance_id), tmp_path / instance_id / "instance.json"
    newer = file.read_text().replace('"format":1', '"format":2')
    file.write_text(newer if change == "format" else change)
    assert await listed(await site.provider()) == ()
    await ended(host)
    kept = tmp_path / f".unreadable-{instance_id}"
    assert (kept / "host.json").exists()
    assert f"{file} cannot be read" in caplog.text
    assert await listed(await site.provider()) == ()
    assert kept.exists()


async def test_the_end_of_a_host_is_the_end_of_all_below_it(site: Site, tmp_path: Path) -> None:
    """Its task left session and group; its environment still names it."""
    provider = await site.provider()
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


async def test_terminate_leaves_no_process(site: Site, tmp_path: Path) -> None:
    provider = await site.provider()
    (instance_id,) = await launched(provider, own_intent(provider))
    await ready(tmp_path, instance_id)
    await provider.terminate([instance_id])
    assert not marked_processes("WINDLASS_INSTANCE_ID", instance_id)
    assert directories_in(tmp_path) == []


async def test_a_host_that_cannot_boot_ends_with_its_last_words(site: Site, tmp_path: Path) -> None:
    provider = await site.provider(program=DYING)
    (instance_id,) = await launched(provider, own_intent(provider))
    async with asyncio.timeout(30):
        while not (found := [x for x in await listed(provider) if x.state is FoundState.ENDED]):  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.02)
    assert found[0].instance_id == instance_id
    assert "no disk" in found[0].detail


async def test_a_launch_that_fails_half_way_leaves_nothing(site: Site, tmp_path: Path) -> None:
    provider = await site.provider()
    intent = own_intent(provider, 2)
    (tmp_path / f"gpu-{intent.token[:8]}-1").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        await launched(provider, intent)
    assert await listed(provider) == ()
    assert not marked_processes("WINDLASS_INSTANCE_ID", f"gpu-{intent.token[:8]}-0")


async def test_ends_a_host_whose_environment_is_not_readable_yet(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is for a moment after its start: a sweep for its id does not find it."""
    provider = await site.provider()
    intent = own_intent(provider, 2)
    (tmp_path / f"gpu-{intent.token[:8]}-1").write_text("in the way")
    monkeypatch.setattr("provisioner.providers.embedded_instances.sweep", lambda *_: None)
    with pytest.raises(OSError, match="exists"):
        await launched(provider, intent)
    assert not marked_processes("WINDLASS_INSTANCE_ID", f"gpu-{intent.token[:8]}-0")


async def test_shows_only_its_own_cluster(site: Site) -> None:
    provider = await site.provider()
    theirs = replace(own_intent(provider), cluster_id="theirs")
    ids = await launched(provider, theirs)
    assert await listed(provider) == ()
    await provider.terminate(ids)


async def test_never_touches_what_is_not_below_its_root(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    provider = await site.provider(tmp_path / "root")
    await launched(provider, own_intent(provider))
    await provider.terminate(["../outside", ".", "..", "/tmp"])
    assert outside.exists()
    assert len(await listed(provider)) == 1


async def test_offers_every_type_and_runs_out_of_stock(site: Site) -> None:
    scarce = InstanceType(name="scarce", slots=4, usd_per_hour=2.0, boot_s=1.5, available=1)
    provider = await site.provider(types=(GPU_2, scarce))
    plenty, rare = provider.offers("gpu") or ()
    assert [(o.key.instance_type, o.slots, o.usd_per_hour) for o in (plenty, rare)] == [
        ("gpu-2", 2, 3.0),
        ("scarce", 4, 2.0),
    ]
    with pytest.raises(CapacityError, match="scarce is out of stock: requested 2, available 1"):
        await launched(provider, an_intent(rare, 2, token=a_token()))
    first = an_intent(rare, 1, token=a_token())
    ids = await launched(provider, first)
    assert await launched(provider, first) == ids, "the same call again is no second one"
    with pytest.raises(CapacityError, match="requested 1, available 0"):
        await launched(provider, an_intent(rare, 1, token=a_token()))
    await launched(provider, an_intent(plenty, 1, token=a_token()))
    await provider.terminate(ids)
    again = an_intent(rare, 1, token=a_token())
    assert len(await launched(provider, again)) == 1
