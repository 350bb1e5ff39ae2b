"""The colours of states on a terminal. `NO_COLOR` and pipes get none."""

from __future__ import annotations

STATE = "State"
"""The header of the column that is coloured."""
_STYLES = {
    "green": ("RUNNING", "ENABLED", "BUSY", "READY", "OK", "SCHEDULED"),
    "cyan": ("QUEUED", "STARTING", "PULLING", "BOOTING", "IDLE", "WAITING"),
    "yellow": ("PAUSED", "STOPPING", "DRAINING", "TERMINATING", "ENDING", "CANCELED", "WARNING"),
    "red": ("ERROR", "FAILED", "LOST", "AWAY", "DISABLED", "GONE"),
    "blue": ("COMPLETED", "TERMINATED"),
}
_BY_STATE = {state: colour for colour, states in _STYLES.items() for state in states}


def style(state: str) -> str:
    """The colour of a state, by its first word (`enabled, 2 of its slots not`); empty if it has none."""
    words = state.upper().replace(",", " ").replace("_", " ").split()
    return _BY_STATE.get(words[0], "") if words else ""
