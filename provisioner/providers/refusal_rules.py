"""What a cloud's refusals mean, as a table of rules: the first that matches counts. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.web_pages import without_page
from provisioner.types import Offer, Scope

MAX_SAID = 400


class RefusalRule(NamedTuple):
    codes: str
    """A pattern of the whole code."""
    kind: BlockKind
    scope: Callable[[Offer], Scope | None]
    hint: str = ""
    text: str = ""
    """A pattern that the message must contain."""

    def applied_to(self, said: str) -> str:
        """What the cloud said, with the way out."""
        return f"{said}; {self.hint}" if self.hint else said


def first_rule(rules: Sequence[RefusalRule], code: str, message: str) -> RefusalRule | None:
    return next(
        (
            rule
            for rule in rules
            if re.fullmatch(rule.codes, code) and (not rule.text or re.search(rule.text, message))
        ),
        None,
    )


def in_one_line(code: str, message: str) -> str:
    text = " ".join(without_page(message).split())
    return f"{code}: {text[:MAX_SAID]}" if text else code


def usual(offer: Offer) -> None:
    """What is usual for the kind."""


def whole_account(offer: Offer) -> Scope:
    """In the account or project, and region."""
    return Scope(provider=offer.key.provider)


def same_type(offer: Offer) -> Scope:
    """Machines of one type are made alike: by the same keys of their section."""
    return Scope(provider=offer.key.provider, instance_type=offer.key.instance_type)


def same_image(offer: Offer) -> Scope:
    return Scope(provider=offer.key.provider, image=offer.image)


def without_reservation(offer: Offer) -> Scope | None:
    """Without a reservation in the offer it is none of ours that is used up."""
    return None if offer.key.reservation else Scope.of(offer.key)
