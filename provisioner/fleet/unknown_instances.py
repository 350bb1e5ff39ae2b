"""What was bought from providers that the configuration does not have any more."""

from __future__ import annotations

import logging
from collections.abc import Container

from provisioner.fleet.state import FleetState

log = logging.getLogger(__name__)


def warn_of_unknown(state: FleetState, providers: Container[str]) -> None:
    for intent in state.intents.values():
        if intent.provider not in providers:
            log.error(
                "launch %s of %d machines for pool %s is given up: provider %s is not configured any more, "
                "and what it may have made carries the tag of the launch there",
                intent.id,
                intent.count,
                intent.pool,
                intent.provider,
            )
    for record in state.instances.values():
        if record.provider not in providers:
            log.error(
                "still billing: instance %s is of provider %s, which the configuration does not have",
                record.id,
                record.provider,
            )
