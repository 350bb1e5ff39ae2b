"""What one reconcile pass makes of answers that are partial, late or twice."""

from __future__ import annotations

from dataclasses import replace

from provisioner.capacity.refusals import BlockKind
from provisioner.fleet.documents import forget_finished, unsaved
from provisioner.fleet.due_calls import called, due_launches
from provisioner.fleet.instances import InstanceState
from provisioner.fleet.intents import IntentRecord, IntentState
from provisioner.fleet.reconcile_pass import ReconcilePass
from provisioner.fleet.state import (
    LIST_GRACE_S,
    Agents,
    EndAcknowledged,
    Event,
    FleetCatalogue,
    FleetState,
    Launched,
    LaunchRefused,
    LaunchUnanswered,
    PoolSetup,
    ProviderListing,
)
from provisioner.providers.base import (
    Accepted,
    FoundGroup,
    FoundInstance,
    FoundState,
    Inventory,
)
from provisioner.types import PoolSettings, Scope
from tests.fakes.fleet_world import CLUSTER, an_offer

OFFER = an_offer()
OTHER = an_offer(zone="b")
CATALOGUE = FleetCatalogue(
    pools={"gpu": PoolSetup(settings=PoolSettings(pool="gpu"), offers=(OFFER, OTHER))},
    list_grace_s={"cloud": LIST_GRACE_S},
)
INTENT = IntentRecord(
    id="i",
    pool="gpu",
    offer=OFFER,
    token="t",
    generation=1,
    created_at=0.0,
    claims=(("a",), ("b",)),
)


def found(instance_id: str, state: FoundState = FoundState.RUNNING) -> FoundInstance:
    return FoundInstance(
        instance_id=instance_id,
        state=state,
        cluster_id=CLUSTER,
        pool="gpu",
        intent_id="i",
        generation=1,
        created_at=1.0,
        offer_key=OFFER.key,
    )


def looked(at: float, *instances: FoundInstance) -> ProviderListing:
    return ProviderListing(provider="cloud", started_at=at, found=Inventory(instances=instances))


def asked(now: float = 0.0) -> FleetState:
    """A state with one launch under way."""
    state = FleetState(cluster_id=CLUSTER, generation=1, intents={"i": INTENT})
    return called(state, [INTENT], now)


def after(state: FleetState, now: float, *events: Event) -> FleetState:
    reconcile_pass = ReconcilePass(state, CATALOGUE, now)
    reconcile_pass.absorb(events, Agents())
    return reconcile_pass.result()


def test_a_list_that_shows_part_of_a_launch_makes_no_orphans() -> None:
    state = after(asked(), 5.0, looked(4.0, found("m0")))
    assert not state.instances
    whole = after(state, 7.0, looked(6.0, found("m0"), found("m1")))
    assert set(whole.instances) == {"m0", "m1"}
    assert whole.intents["i"].state is IntentState.ANSWERED


def test_the_reply_after_the_list_changes_nothing() -> None:
    listed = after(asked(), 5.0, looked(4.0, found("m0"), found("m1")))
    replied = after(listed, 6.0, Launched(intent=INTENT, instance_ids=("m0", "m1")))
    assert {id_: r.state for id_, r in replied.instances.items()} == {
        id_: r.state for id_, r in listed.instances.items()
    }
    late = after(forget_finished(listed), 6.0, Launched(intent=INTENT, instance_ids=("m0", "m1")))
    assert set(late.instances) == {"m0", "m1"}


def test_a_list_from_before_the_delivery_queues_nothing_again() -> None:
    listed = after(asked(), 5.0, Launched(intent=INTENT, instance_ids=("m0", "m1")))
    group = FoundGroup(
        cluster_id=CLUSTER,
        pool="gpu",
        intent_id="i",
        generation=1,
        created_at=1.0,
        offer_key=OFFER.key,
        count=2,
        accepted=Accepted(handle="h", look_again_s=1.0),
    )
    look = ProviderListing(provider="cloud", started_at=4.0, found=Inventory(groups=(group,)))
    late = after(forget_finished(listed), 6.0, look)
    assert not late.intents, "cancelling it would end machines that work"
    assert set(late.instances) == {"m0", "m1"}


def test_machines_get_the_claims_of_their_place_in_the_group() -> None:
    state = after(asked(2.0), 5.0, Launched(intent=INTENT, instance_ids=("m0", "m1")))
    assert {id_: record.claims for id_, record in state.instances.items()} == {
        "m0": ("a",),
        "m1": ("b",),
    }
    assert {record.created_at for record in state.instances.values()} == {
        2.0
    }  # billed from the call


def test_unanswered_launches_are_repeated_ever_more_slowly() -> None:
    state, now, waits = asked(), 0.0, []
    for _ in range(7):
        now += 1.0
        state = after(state, now, LaunchUnanswered(intent=INTENT, message="time-out"))
        assert not due_launches(state, now)
        waits.append(state.intents["i"].next_try_at - now)
        now = state.intents["i"].next_try_at
        (due,) = due_launches(state, now)
        assert due.token == "t"
        state = called(state, [due], now)
    assert waits == [2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_launch_without_any_answer_is_given_up_only_when_a_later_list_shows_none_of_it() -> None:
    state = asked()
    for now in (30.0, 90.0, 150.0):
        state = after(state, now, LaunchUnanswered(intent=INTENT, message="time-out"))
        if now < 150.0:
            state = called(state, [state.intents["i"]], now + 20)
    early = after(state, 160.0, looked(149.0))
    assert early.intents["i"].state is IntentState.CALLED
    under_way = after(called(state, [state.intents["i"]], 155.0), 160.0, looked(156.0))
    assert under_way.intents["i"].state is IntentState.CALLED
    failed_list = after(
        state, 160.0, ProviderListing(provider="cloud", started_at=155.0, found=None, error="down")
    )
    assert failed_list.intents["i"].state is IntentState.CALLED
    given_up = after(state, 160.0, looked(155.0))
    assert given_up.intents["i"].state is IntentState.FAILED
    assert [block.message for block in given_up.memory.covering(OFFER)] == ["no answer: time-out"]


def test_a_refused_account_blocks_all_its_offers_and_a_stock_out_only_its_own() -> None:
    refused = after(
        asked(), 1.0, LaunchRefused(intent=INTENT, kind=BlockKind.AUTH, message="expired")
    )
    assert refused.memory.is_shut(OTHER, 2.0)
    empty = after(
        asked(), 1.0, LaunchRefused(intent=INTENT, kind=BlockKind.CAPACITY, message="none")
    )
    assert empty.memory.is_shut(OFFER, 2.0)
    assert not empty.memory.is_shut(OTHER, 2.0)


def test_a_machine_is_written_off_only_after_everybody_was_told() -> None:
    running = forget_finished(
        after(asked(), 5.0, Launched(intent=INTENT, instance_ids=("m0", "m1")))
    )
    gone = after(running, 65.0, looked(64.0, found("m0", FoundState.ENDED), found("m1")))
    assert gone.instances["m0"].state is InstanceState.GONE
    ((_, _, is_gone, document),) = [x for x in unsaved(running, gone).instances if x[0] == "m0"]
    assert not is_gone
    assert document["state"] == "gone"
    told = after(gone, 70.0, EndAcknowledged(instance_id="m0"))
    twice = after(told, 71.0, EndAcknowledged(instance_id="m0"))
    assert [x[:3] for x in unsaved(gone, told).instances if x[0] == "m0"] == [("m0", "gpu", True)]
    assert told.ledger.gone_usd == twice.ledger.gone_usd > 0
    assert set(forget_finished(told).instances) == {"m1"}


def test_dying_at_boot_counts_as_a_failed_boot() -> None:
    state = forget_finished(after(asked(), 5.0, Launched(intent=INTENT, instance_ids=("m0", "m1"))))
    ended = [replace(found(m, FoundState.ENDED), detail="no disk") for m in ("m0", "m1")]
    boots = after(state, 9.0, looked(8.0, *ended)).memory.boots.values()
    assert {known.failed for known in boots} == {2}


def test_a_turn_without_news_has_nothing_to_commit() -> None:
    state = forget_finished(after(asked(), 5.0, Launched(intent=INTENT, instance_ids=("m0", "m1"))))
    seen = after(state, 7.0, looked(6.0, found("m0"), found("m1")))
    assert unsaved(state, seen)
    for now in range(9, 60, 2):
        later = after(seen, float(now), looked(now - 1.0, found("m0"), found("m1")))
        assert not unsaved(seen, later)
        seen = later


def test_a_launch_that_succeeds_reopens_its_offer() -> None:
    state = asked()
    memory = state.memory.refused(Scope.of(OFFER.key), BlockKind.CAPACITY, "none", now=0.0)
    state = after(
        replace(state, memory=memory), 5.0, Launched(intent=INTENT, instance_ids=("m0", "m1"))
    )
    assert state.memory.of(OFFER) is None
