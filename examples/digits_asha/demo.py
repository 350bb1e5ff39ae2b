"""Starts a master, searches on its elastic pool, trains the best on, shows it live, and leaves nothing behind.

Everything it knows it asks the REST API, as any user's program would.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.live import Live

sys.path.insert(0, str(Path(__file__).parent))
from events import FleetEvents
from screen import ENDED, Snapshot, best_first, draw, metric, progress_line, word

from windlass.base.errors import WindlassError
from windlass.sdk.client import Client
from windlass.sdk.context_dir import pack_directory
from windlass.sdk.session import Session

HERE = Path(__file__).parent
WINDLASS = str(Path(sys.executable).with_name("windlass"))
PATIENCE_S = 240.0
"""How long nothing may change before the demo gives up: on a busy machine all of it takes longer, but goes on."""
MORE_EPOCHS = 60
"""How long the best trial of the search is trained on, on one machine: the others end meanwhile."""
STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DONE = "STATE_COMPLETED"
PROGRESS_S = 10.0
"""How often a line tells how far it is, where the output is no terminal."""
Json = dict[str, Any]
NEXT_STEPS = """
[b]what to do next[/b]
  det deploy local cluster-up       a cluster of your own: docs/quick-start.md
  examples/digits_asha              search, training code and pool of this demo
  docs/agents-and-pools.md          pools of your machines, and elastic ones
  windlass fleet list|costs         what you saw here, of any cluster"""


class Demo:
    """The demo's master in a temporary folder."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.folder = folder
        self.data = folder / "master"
        self.console = console
        self.port = _free_port()
        self.log = folder / "master.log"
        self.started = time.monotonic()
        self._master: subprocess.Popen[bytes] | None = None
        self.events = FleetEvents()
        self.client = Client(Session(f"http://127.0.0.1:{self.port}"))

    def start(self) -> None:
        config = yaml.safe_load((HERE / "master.yaml").read_text())
        path = self.folder / "master.yaml"
        path.write_text(yaml.safe_dump({**config, "port": self.port}))
        with self.log.open("wb") as log:
            self._master = subprocess.Popen(
                [WINDLASS, "master", "run", "-c", str(path), "--data-dir", str(self.data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while not self._answers():
            if self._master.poll() is not None:
                raise SystemExit(f"the master ended:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.1)
        password = (self.data / "initial-password").read_text().strip()
        self.client.session.login("determined", password)

    def _answers(self) -> bool:
        with suppress(WindlassError):
            return bool(self.client.info())
        return False

    def stop(self) -> None:
        """End the master, then every instance it may have left, whatever state they are in."""
        if self._master is None:
            return
        with self.console.status("cleaning up"):
            self._master.send_signal(signal.SIGTERM)
            try:
                self._master.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self._master.kill()
            command = [WINDLASS, "master", "end-instances", "--data-dir", str(self.data)]
            subprocess.run(command, check=False, capture_output=True)

    def search(self) -> int:
        return self._submit((HERE / "search.yaml").read_text())

    def train_on(self, best: Json) -> int:
        """From its last checkpoint, with its hyperparameters."""
        config = yaml.safe_load((HERE / "search.yaml").read_text())
        metric = {key: config["searcher"][key] for key in ("metric", "smaller_is_better")}
        config["name"] = "digits-best"
        config["searcher"] = {"name": "single", "source_trial_id": best["id"], **metric}
        epochs = best["hparams"]["epochs"] + MORE_EPOCHS
        config["hyperparameters"] = {**best["hparams"], "epochs": epochs}
        return self._submit(yaml.safe_dump(config))

    def _submit(self, config: str) -> int:
        files = pack_directory(HERE / "model").files
        return int(self.client.create_experiment(config, files)["experiment"]["id"])

    def look(self, experiment_id: int) -> Snapshot:
        get = self.client.session.get
        fleet = get("/api/v1/windlass/fleet")
        elapsed_s = time.monotonic() - self.started
        self.events.look(fleet, elapsed_s)
        return Snapshot(
            experiment=self.client.experiment(experiment_id)["experiment"],
            trials=self.client.trials(experiment_id),
            fleet=fleet,
            pool=get("/api/v1/windlass/pools")["pools"][0],
            rungs=get(f"/api/v1/windlass/experiments/{experiment_id}/searcher")["rungs"],
            events=self.events.lines,
            elapsed_s=elapsed_s,
        )


def watch(demo: Demo) -> tuple[Snapshot, Snapshot]:
    """Show the search, then how its best trial is trained on until the pool is empty again. The end of both."""
    with Live(console=demo.console, auto_refresh=False, vertical_overflow="crop") as live:
        search = _watch(demo, live, demo.search(), until_empty=False)
        best = best_first(search.trials)[0]
        if search.experiment["state"] != DONE or metric(best) is None:
            return search, search
        return search, _watch(demo, live, demo.train_on(best), until_empty=True)


class Patience:
    """Ends when nothing has changed for `PATIENCE_S`."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since_s = 0.0

    def is_over(self, now: Snapshot) -> bool:
        trials = [(t["id"], t["state"], t["totalBatchesProcessed"]) for t in now.trials]
        machines = [(i["id"], i["activity"]) for i in now.fleet["instances"]]
        seen = (now.experiment["state"], trials, machines, len(now.events))
        if seen != self._seen:
            self._seen, self._since_s = seen, now.elapsed_s
        return now.elapsed_s - self._since_s > PATIENCE_S


class Progress:
    """A line every `PROGRESS_S`, where there is no terminal that shows the view."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 0.0

    def look(self, now: Snapshot) -> None:
        if not self._console.is_terminal and now.elapsed_s >= self._next_s:
            self._next_s = now.elapsed_s + PROGRESS_S
            self._console.print(progress_line(now), highlight=False, soft_wrap=True)


def _watch(demo: Demo, live: Live, experiment_id: int, *, until_empty: bool) -> Snapshot:
    patience, progress = Patience(), Progress(demo.console)
    while True:
        now = demo.look(experiment_id)
        progress.look(now)
        live.update(draw(now, demo.console.height), refresh=True)
        over = word(now.experiment["state"]) in ENDED
        if over and not (until_empty and now.fleet["instances"]):
            return now
        if patience.is_over(now):
            log = demo.log.read_text(errors="replace")[-2000:]
            raise SystemExit(
                f"nothing has changed for {PATIENCE_S:.0f} s; the master's log ends:\n{log}"
            )
        time.sleep(0.25 if demo.console.is_terminal else 1.0)


def report(console: Console, search: Snapshot, end: Snapshot) -> bool:
    """Print the result; whether the demo did its job."""
    best, last = best_first(search.trials)[0], end.trials[0]
    value, trained = metric(best), metric(last)
    done = end is not search and end.experiment["state"] == DONE and trained is not None
    console.print()
    console.print(f"search: [b]{word(search.experiment['state'])}[/b], {len(search.trials)} trials")
    if value is not None:
        chosen = {k: v for k, v in best["hparams"].items() if k != "epochs"}
        console.print(
            f"best trial: [b]{best['id']}[/b], validation error [b]{value:.4f}[/b] "
            f"after {best['totalBatchesProcessed']} epochs"
        )
        for name, setting in sorted(chosen.items()):
            console.print(
                f"  {name}: {setting:.4g}" if isinstance(setting, float) else f"  {name}: {setting}"
            )
    if trained is not None and end is not search:
        console.print(
            f"trained on from its checkpoint, on one machine: validation error [b]{trained:.4f}[/b]\n"
            f"after {last['totalBatchesProcessed']} epochs in all"
        )
    _print_money(console, end)
    if done:
        console.print(NEXT_STEPS, soft_wrap=True)
    return done


def _print_money(console: Console, end: Snapshot) -> None:
    fleet = end.fleet
    spent, always_on = float(fleet["usd"]), float(fleet["alwaysOnUsd"])
    rate = float(fleet["peakUsdPerHour"])
    saved = 1 - spent / always_on if always_on else 0.0
    console.print("\n[b]machines and money[/b] (costs are simulated)")
    for line in end.events:
        console.print(line, highlight=False, no_wrap=True, overflow="ellipsis")
    console.print(
        f"elastic pool  [b]{spent:.2f} USD[/b]; now {len(fleet['instances'])} instances at 0 USD/h\n"
        f"always on     {always_on:.2f} USD for the same time: {fleet['peakInstances']} instances "
        f"at {rate:.0f} USD/h\n"
        f"saved         [b green]{always_on - spent:.2f} USD ({saved:.0%})[/b green] so far, "
        f"and [b green]{rate:.0f} USD[/b green] each hour from now on",
        highlight=False,
    )


def main() -> int:
    for number in STOPPERS:
        signal.signal(number, signal.default_int_handler)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
        demo = Demo(Path(folder), console)
        try:
            if not console.is_terminal:
                console.print("starting a master")
            demo.start()
            return 0 if report(console, *watch(demo)) else 1
        except KeyboardInterrupt:
            console.print("stopping")
            return 130
        finally:
            for number in STOPPERS:  # the cleaning up is not to be cut short
                signal.signal(number, signal.SIG_IGN)
            demo.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
