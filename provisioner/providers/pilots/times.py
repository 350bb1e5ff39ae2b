"""How long pilots last, and how much of that is of use."""

from __future__ import annotations

from math import ceil

from master.core.scheduler.end_times import LEAST_S

WALLTIME_S = 4 * 3600.0
"""Where neither the operator nor the queue says how long."""
MARGIN_S = 60.0
"""Work has left a pilot so long before its time is over."""
STAGGER = 0.1
"""Pilots ask for up to so much less than their walltime: those that were submitted together do not end together."""
LEAST_PILOT_S = 60.0 * ceil((LEAST_S + MARGIN_S) / (1 - STAGGER) / 60)
"""Nothing whose run time nobody knows is placed on a pilot of a shorter walltime."""
