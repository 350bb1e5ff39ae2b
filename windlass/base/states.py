"""How states look: one table for `det` and for the stylesheet of the pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateStyle:
    token: str
    """The name of its colour on pages."""
    symbol: str
    """Colour alone would not tell states apart for everybody."""
    colour: str
    """In terminals."""
    light: str
    dark: str
    """On pages: at least 4.5 : 1 on their backgrounds."""
    words: tuple[str, ...]
    """The first word of each state that looks so."""


STYLES = (
    StateStyle(
        *("running", "●", "green", "#0b6e4f", "#4cc38a"),
        words=("RUNNING", "ENABLED", "BUSY", "READY", "OK", "SCHEDULED", "ACTIVE"),
    ),
    StateStyle("queued", "○", "yellow", "#7a5200", "#e0b04a", words=("QUEUED",)),
    StateStyle("queued", "!", "yellow", "#7a5200", "#e0b04a", words=("WARNING",)),
    StateStyle(
        *("starting", "◐", "cyan", "#0a6c8e", "#58c4dd"),
        words=("STARTING", "PULLING", "ASSIGNED", "BOOTING", "WAITING"),
    ),
    StateStyle("starting", "○", "cyan", "#0a6c8e", "#58c4dd", words=("IDLE",)),
    StateStyle("paused", "‖", "magenta", "#5b4fa8", "#b0a4f5", words=("PAUSED",)),
    StateStyle("completed", "✓", "blue", "#24588f", "#7fb2ec", words=("COMPLETED", "TERMINATED")),
    StateStyle(
        *("error", "✕", "red", "#b3261e", "#ff8a80"),
        words=("ERROR", "FAILED", "LOST", "AWAY", "DISABLED", "GONE", "DELETE"),
    ),
    StateStyle(
        *("canceled", "⊘", "bright_black", "#5f6670", "#a3adb8"),
        words=("CANCELED", "DELETED", "PARTIALLY"),
    ),
    StateStyle(
        *("releasing", "↺", "magenta", "#8a3d6b", "#e59ac4"),
        words=("STOPPING", "DRAINING", "TERMINATING", "ENDING", "DELETING", "PREEMPTED"),
    ),
)
_BY_WORD = {word: style for style in STYLES for word in style.words}


def style_of(state: str) -> StateStyle | None:
    """By its first word: `enabled, 2 of its slots not`, `STOPPING_CANCELED`."""
    words = state.upper().replace(",", " ").replace("_", " ").split()
    return _BY_WORD.get(words[0]) if words else None
