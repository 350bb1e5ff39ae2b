"""What the demo shows: events of the fleet in words, and a view that fits 80 columns."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

EXAMPLE = Path(__file__).parents[3] / "examples" / "digits_asha"


@pytest.fixture(autouse=True)
def demo_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("events", "screen", "demo"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def instance(activity: str, **changes: object) -> dict[str, object]:
    return {
        "id": "compute-1",
        "offer": {"instanceType": "gpu"},
        "usdPerHour": 40.0,
        "usd": 0.5,
        "ageS": 4.0,
        "slots": 1,
        "state": "ready",
        "activity": activity,
        "reason": "",
        **changes,
    }


def fleet(*instances: dict[str, object]) -> dict[str, object]:
    refused = {"reason": "spot-gpu is out of stock"}
    return {
        "instances": list(instances),
        "blockedOffers": [refused],
        "usd": 2.5,
        "usdPerHour": 40.0,
        "peakInstances": 5,
        "peakUsdPerHour": 200.0,
        "alwaysOnUsd": 10.0,
    }


def test_machines_come_and_go_in_words() -> None:
    from events import FleetEvents

    events = FleetEvents()
    events.look(fleet(), 1)
    events.look(fleet(instance("booting", id="6a2e/0", state="asking")), 1.5)
    events.look(fleet(instance("booting")), 2)
    events.look(fleet(instance("booting")), 3)
    events.look(fleet(instance("busy")), 6)
    events.look(fleet(instance("ending", reason="idle for 5 s")), 50)
    events.look(fleet(instance("booting", id="compute-2")), 51)
    events.look(fleet(), 52)
    assert events.lines == [
        "   1 s  refused  spot-gpu is out of stock",
        "   2 s  launched compute-1, gpu at 40 USD/h",
        "   6 s  ready    compute-1 after 4 s",
        "  51 s  launched compute-2, gpu at 40 USD/h",
        "  51 s  ended    compute-1, cost 0.50 USD: idle for 5 s",
        "  52 s  ended    compute-2, cost 0.50 USD",
    ]


def test_the_report_fits_80_columns_and_says_what_was_saved_and_what_is_next() -> None:
    from demo import report
    from screen import Snapshot, draw

    trial = {
        "id": 1,
        "state": "STATE_COMPLETED",
        "searcherMetricValue": 0.01,
        "totalBatchesProcessed": 27,
        "hparams": {"learning_rate": 0.001, "hidden": 128, "layers": 2, "alpha": 1e-6},
    }
    end = Snapshot(
        experiment={"name": "digits-asha", "state": "STATE_COMPLETED", "progress": 1.0},
        trials=[trial],
        fleet=fleet(instance("busy")),
        pool={"waiting": [], "slotsUsed": 5, "slotsTotal": 5},
        events=["  51 s  ended    compute-1, cost 0.50 USD: idle for 5 s (limit 5 s)" + "x" * 30],
        elapsed_s=65.0,
    )
    screen = io.StringIO()
    console = Console(file=screen, width=80)
    console.print(draw(end, 40))
    assert not report(console, end, end), "the search alone is not all"
    trained = {**trial, "id": 2, "searcherMetricValue": 0.005, "totalBatchesProcessed": 87}
    assert report(console, end, replace(end, trials=[trained]))
    text = screen.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "saved         7.50 USD (75%) so far, and 200 USD each hour from now on" in text
    assert "validation error 0.0050\nafter 87 epochs in all" in text
    assert "costs are simulated" in text
    assert "det deploy local cluster-up" in text


def test_the_demo_gives_up_only_when_nothing_changes() -> None:
    from demo import PATIENCE_S, Patience
    from screen import Snapshot

    def at(elapsed_s: float, steps: int) -> Snapshot:
        trial = {"id": 1, "state": "STATE_RUNNING", "totalBatchesProcessed": steps}
        experiment = {"state": "STATE_ACTIVE"}
        return Snapshot(
            experiment=experiment, trials=[trial], fleet=fleet(), pool={}, elapsed_s=elapsed_s
        )

    patience = Patience()
    for n in range(10):
        assert not patience.is_over(at(n * PATIENCE_S, steps=n)), "it is slow, and goes on"
    assert not patience.is_over(at(10 * PATIENCE_S, steps=9))
    assert patience.is_over(at(10 * PATIENCE_S + 1, steps=9))


def test_a_file_or_pipe_gets_a_line_now_and_then_and_a_terminal_none() -> None:
    from demo import PROGRESS_S, Progress
    from screen import Snapshot

    def at(elapsed_s: float) -> Snapshot:
        best = {"id": 1, "state": "STATE_COMPLETED", "searcherMetricValue": 0.0125}
        return Snapshot(
            experiment={"name": "digits-asha", "state": "STATE_ACTIVE"},
            trials=[best, {"id": 2, "state": "STATE_RUNNING"}],
            fleet=fleet(instance("busy")),
            pool={},
            elapsed_s=elapsed_s,
        )

    def shown(*, terminal: bool) -> list[str]:
        output = io.StringIO()
        progress = Progress(Console(file=output, width=80, force_terminal=terminal))
        for elapsed_s in (3, 4, 3 + PROGRESS_S, 4 + PROGRESS_S):
            progress.look(at(elapsed_s))
        return output.getvalue().splitlines()

    line = "digits-asha ACTIVE: trials done: 1 of 2 so far, machines: 1, best error: 0.0125"
    assert shown(terminal=False) == [f"   3 s  {line}", f"  13 s  {line}"]
    assert shown(terminal=True) == []
