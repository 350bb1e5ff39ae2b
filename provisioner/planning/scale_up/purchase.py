"""Which offers to buy for gangs that nothing existing can hold: greedy weighted set cover on counts.

One node of an offer is filled with the largest gangs that fit; its price divided by what those gangs would cost at
their cheapest is its score. The best score is bought as often as the same filling repeats, then the rest is looked at
again. Big machines win only where they are cheaper than the small ones they replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from provisioner.types import Offer

Filling = Mapping[int, int]
"""Slots of a gang -> how many such gangs share one node."""


class Quote(NamedTuple):
    """An offer, and what an hour of work on one of its machines is expected to cost."""

    offer: Offer
    usd: float


@dataclass(frozen=True, slots=True)
class Purchase:
    """`count` nodes of one offer, each with the same filling."""

    offer: Offer
    filling: Filling
    count: int


def cheapest_by_size(
    quotes: Iterable[Quote], *, apart: Callable[[Offer], float] = lambda _: 0.0
) -> list[Quote]:
    """For each size the cheapest, then the fastest to boot; largest size first. What is stopped beside what is sold:
    there are only so many of it. `apart`: those that differ in that are kept apart.
    """
    best: dict[tuple[int, bool, float], tuple[float, Quote]] = {}
    for quote in quotes:
        offer, usd = quote.offer, round(quote.usd, 9)
        size = (offer.slots, offer.key.stopped, apart(offer))
        known = best.get(size)
        if known is None or (
            usd < known[0] or (usd == known[0] and _rank(offer) < _rank(known[1].offer))
        ):
            best[size] = (usd, quote)
    return [best[size][1] for size in sorted(best, reverse=True)]


def _rank(offer: Offer) -> tuple[object, ...]:
    """Of those that are expected to cost the same."""
    return (offer.usd_per_hour, offer.boot_s, offer.key)


def slot_share(slots: int, quotes: Sequence[Quote]) -> float:
    """What a gang of `slots` costs per hour at the least: its share of the cheapest node that can hold it."""
    return min(
        (usd * slots / offer.slots for offer, usd in quotes if offer.slots >= slots > 0),
        default=float("inf"),
    )


def fill(node_slots: int, counts: Mapping[int, int]) -> dict[int, int]:
    """Fill one node with waiting gangs, largest first. `counts` is ordered by size, descending."""
    free = node_slots
    filling: dict[int, int] = {}
    for slots, count in counts.items():
        if count and slots <= free:
            fits = min(count, free // slots)
            filling[slots] = fits
            free -= fits * slots
    return filling


def next_purchase(
    counts: Mapping[int, int], quotes: Sequence[Quote], share: Mapping[int, float]
) -> Purchase | None:
    """The best purchase for what is left, repeated as often as its filling repeats. None if nothing fits.

    `counts`: gangs by slots, sizes descending; `quotes`: one of each size, and one of what is stopped; `share`:
    `slot_share` of each size.
    """
    best: tuple[float, int, Purchase] | None = None
    for offer, usd in quotes:
        filling = fill(offer.slots, counts)
        if not filling:
            continue
        value = sum(share[slots] * fits for slots, fits in filling.items())
        # Free offers (price 0) make every value 0: then the node that holds most is best.
        score = round(usd / value, 9) if value else 0.0
        held = sum(slots * fits for slots, fits in filling.items())
        if best is None or (score, -held) < best[:2]:
            repeats = min(counts[slots] // fits for slots, fits in filling.items())
            best = (score, -held, Purchase(offer, filling, repeats))
    return best[2] if best else None
