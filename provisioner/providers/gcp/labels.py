"""What a machine says of itself: labels that are given with the call that makes it. Pure.

Values of labels hold lower case, digits, `-` and `_`, 63 at most. Anything else is written as `_` and two hexadecimal
digits for each byte, and what is longer goes on in `KEY-1`, `KEY-2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from provisioner.providers.base import LaunchIntent
from provisioner.types import Market

CLUSTER = "windlass_cluster"
PROVIDER = "windlass_provider"
POOL = "windlass_pool"
INTENT = "windlass_intent"
TOKEN = "windlass_token"  # noqa: S105 - the name of a label
COUNT = "windlass_count"
GENERATION = "windlass_generation"
CREATED_AT = "windlass_created_at"
MARKET = "windlass_market"
RESERVATION = "windlass_reservation"
PLACEMENT = "windlass_placement"
SLOTS = "windlass_slots"
USD_PER_HOUR = "windlass_usd_per_hour"

MAX_VALUE = 63
_PLAIN = re.compile(r"[a-z0-9-]")
_CODED = re.compile(r"_([0-9a-f]{2})")


def encoded(value: str) -> str:
    return "".join(
        char if _PLAIN.fullmatch(char) else "".join(f"_{byte:02x}" for byte in char.encode())
        for char in value
    )


def decoded(value: str) -> str:
    raw = _CODED.sub(lambda found: chr(int(found[1], 16)), value)
    with suppress(UnicodeError):  # people can change labels
        return raw.encode("latin-1").decode()
    return raw


def to_labels(values: Mapping[str, str]) -> dict[str, str]:
    labels = {}
    for key, value in values.items():
        text = encoded(value)
        for number, start in enumerate(range(0, max(1, len(text)), MAX_VALUE)):
            labels[f"{key}-{number}" if number else key] = text[start : start + MAX_VALUE]
    return labels


def value_of(labels: Mapping[str, str], key: str) -> str:
    parts, number = [labels.get(key, "")], 1
    while f"{key}-{number}" in labels:
        parts.append(labels[f"{key}-{number}"])
        number += 1
    return decoded("".join(parts))


def number_of(labels: Mapping[str, str], key: str) -> float | None:
    """People can change labels: what is no number counts as not there."""
    with suppress(ValueError):
        return float(value_of(labels, key))
    return None


def market_of(labels: Mapping[str, str]) -> Market:
    with suppress(ValueError):
        return Market(value_of(labels, MARKET))
    return Market.ON_DEMAND


def launch_labels(intent: LaunchIntent) -> dict[str, str]:
    offer, key = intent.offer, intent.offer.key
    values = {
        CLUSTER: intent.cluster_id,
        PROVIDER: key.provider,
        POOL: intent.pool,
        INTENT: intent.intent_id,
        TOKEN: intent.token,
        COUNT: str(intent.count),
        GENERATION: str(intent.generation),
        CREATED_AT: repr(intent.created_at),
        MARKET: key.market.value,
        SLOTS: str(offer.slots),
        USD_PER_HOUR: repr(offer.usd_per_hour),
        RESERVATION: key.reservation,
        PLACEMENT: key.placement,
    }
    return to_labels({name: value for name, value in values.items() if value})


def filter_of(cluster_id: str, provider: str) -> str:
    """Machines of ours, as the API selects them."""
    wanted = to_labels({CLUSTER: cluster_id, PROVIDER: provider})
    return " AND ".join(f'(labels.{name} = "{value}")' for name, value in wanted.items())
