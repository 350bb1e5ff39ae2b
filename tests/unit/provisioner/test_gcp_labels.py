"""Labels of machines: whatever pools and clusters are called, Google takes them, and they come back the same."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from provisioner.providers.gcp import labels
from provisioner.providers.gcp.handles import LaunchHandle
from provisioner.types import Market, OfferKey
from tests.fakes.fleet_world import an_intent, an_offer

VALUE = re.compile(r"[a-z0-9_-]{0,63}")
KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=120)


@given(pool=names, cluster=names, intent_id=names)
def test_any_name_survives(pool: str, cluster: str, intent_id: str) -> None:
    intent = replace(
        an_intent(an_offer(usd_per_hour=3.25)),
        pool=pool, cluster_id=cluster, intent_id=intent_id,
    )  # fmt: skip
    made = labels.launch_labels(intent)
    assert all(KEY.fullmatch(key) and VALUE.fullmatch(value) for key, value in made.items())
    assert labels.value_of(made, labels.POOL) == pool
    assert labels.value_of(made, labels.CLUSTER) == cluster
    assert labels.value_of(made, labels.INTENT) == intent_id
    assert labels.number_of(made, labels.USD_PER_HOUR) == 3.25


@given(st.dictionaries(names, names))
def test_labels_that_people_changed_break_nothing(changed: dict[str, str]) -> None:
    named = {**changed, labels.SLOTS: "many", labels.MARKET: "flea", labels.POOL: "_zz_ff"}
    assert labels.number_of(named, labels.SLOTS) is None
    assert labels.market_of(named) is Market.ON_DEMAND
    assert labels.value_of(named, labels.POOL).startswith("_zz")


def test_machines_are_selected_by_cluster_and_provider() -> None:
    wanted = labels.filter_of("C.1", "acme")
    assert wanted == '(labels.windlass_cluster = "_43_2e1") AND (labels.windlass_provider = "acme")'


def test_a_handle_says_again_what_was_asked() -> None:
    key = OfferKey(
        provider="acme",
        region="us-central1",
        zone="us-central1-a",
        instance_type="n1-standard-8+2xnvidia-tesla-t4",
        market=Market.QUEUED,
        reservation="r-1",
        placement="close",
    )
    offer = replace(an_offer(), key=key)
    handle = LaunchHandle.of(an_intent(offer, 3, token="ab" * 16), "windlass-")
    assert LaunchHandle.read(handle.text, "acme") == handle
    assert handle.names[2] == "windlass-abababababababababab-2"
    assert handle.offer.family == "NVIDIA_T4_GPUS"
    assert LaunchHandle.read("never-was", "acme") is None
    assert LaunchHandle.read(handle.text.replace("queued", "flea"), "acme") is None
