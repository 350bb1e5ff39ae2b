"""Nodes that new pilots avoid: those that operators disabled, and those that everything that waits avoids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from provisioner.providers.errors import Refusal
from provisioner.providers.pilots.answers import EXCLUDED_S
from provisioner.providers.pilots.book import PilotBook
from provisioner.providers.pilots.nodes import AVOIDED_S
from tests.contract.providers.base import a_token
from tests.contract.providers.pilots import FakePilotCase, pilots


@pytest.fixture
async def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakePilotCase]:
    async with pilots(tmp_path) as one:
        begun = one.provider._now()
        monkeypatch.setattr(type(one.provider), "_now", lambda _: begun + one.now)
        yield one


async def pilot(case: FakePilotCase, nodes: int = 1) -> str:
    """One whose agents have joined; its name."""
    ids = (await case.launch(case.intent(nodes, token=a_token()))).instance_ids
    case.joined |= set(ids)
    await case.provider.list()
    return ids[0].rpartition("-")[0]


def excluded(case: FakePilotCase) -> str:
    """By the newest job."""
    return case.slurm.jobs[max(case.slurm.jobs)].exclude


async def test_a_new_pilot_excludes_what_operators_disabled_and_what_all_that_waits_avoids(
    case: FakePilotCase,
) -> None:
    await pilot(case)
    assert excluded(case) == ""
    case.disabled = {"n3"}
    case.avoided = {"n2", "wp-an-agent-0", "of-another-site"}
    await pilot(case)
    assert excluded(case) == "n2,n3"
    case.disabled, case.avoided = set(), set()
    await pilot(case)
    assert excluded(case) == ""


async def test_a_disabled_node_is_avoided_for_an_hour_after_its_pilot_over_a_restart(
    case: FakePilotCase,
) -> None:
    first = await pilot(case)
    case.disabled = {"n1"}
    await case.provider.list()
    case.slurm.named(first).finish("CANCELLED", case.provider._now())
    case.joined, case.disabled = set(), set()
    await case.provider.list()
    await case.restart()
    await pilot(case)
    assert excluded(case) == "n1"
    case.now += AVOIDED_S + 1
    await case.provider.list()
    assert PilotBook(case.folder / "pilots").get(first) is None
    await pilot(case)
    assert excluded(case) == ""


async def test_a_node_that_is_enabled_again_is_used(case: FakePilotCase) -> None:
    first = await pilot(case)
    case.disabled = {"n1"}
    await case.provider.list()
    case.disabled = set()
    await case.provider.list()
    case.slurm.named(first).finish("COMPLETED", case.provider._now())
    await case.provider.list()
    await pilot(case)
    assert excluded(case) == ""


async def test_what_is_put_on_a_disabled_node_all_the_same_gets_no_work(
    case: FakePilotCase,
) -> None:
    """Also after a restart. The pilot that was there before is left as its operator wants it."""
    first = await pilot(case)
    case.disabled = {"n1"}
    await case.provider.list()
    assert case.drained == set()
    second = await pilot(case, 2)
    assert case.drained == {f"{second}-0"}
    case.drained.clear()
    case.disabled = set()
    await case.restart()
    await case.provider.list()
    assert case.drained == {f"{second}-0"}
    assert f"{first}-0" not in case.drained


async def test_what_a_log_policy_excludes_is_no_reason_to_give_a_node_no_work(
    case: FakePilotCase,
) -> None:
    """Other work may come that does not avoid it."""
    case.avoided = {"n1"}
    await pilot(case)
    assert case.drained == set()


async def test_a_refusal_names_the_nodes_that_were_excluded(case: FakePilotCase) -> None:
    case.disabled = {"n1", "n2"}
    case.slurm.refusal = "sbatch: error: Batch job submission failed: Requested node configuration is not available\n"
    with pytest.raises(Refusal) as refused:
        await case.launch(case.intent())
    assert "(it was asked for without n1, n2: nodes that are disabled, or" in refused.value.message
    assert refused.value.retry_after_s == EXCLUDED_S, "other work may come that does not avoid them"
