"""A real Prometheus reads a real master by the files of docs/monitoring.md."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml

from tests.integration.proxy.test_proxy import free_port
from tests.real_cluster import RealCluster, eventually

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
DOCS = Path(__file__).parents[3] / "docs"
TARGET, FOLDER = "master.example:8443", "/etc/prometheus"

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None,
    reason="Prometheus is not installed: run make test-slow",
)


def blocks(first: str) -> list[str]:
    """The YAML of the page whose text begins so, comments apart."""
    text = (DOCS / "monitoring.md").read_text()
    found = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return [one for one in found if re.sub(r"^#.*\n", "", one).lstrip().startswith(first)]


@dataclass(frozen=True)
class Monitored:
    cluster: RealCluster
    url: str

    def ask(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def value_of(self, expression: str) -> Sequence[Any]:
        return list(self.ask("query", query=expression)["result"])


def configuration(cluster: RealCluster, folder: Path) -> str:
    """That of the page, with the addresses of here. Its master speaks TLS; ours does not."""
    (scrape,), (discovery,) = blocks("scrape_configs"), blocks("- job_name: machines")
    text = scrape.replace("scheme: https  ", "scheme: http   ") + discovery
    text = re.sub(r"\n *tls_config: .*", "", text)
    text = text.replace("https://", "http://").replace(TARGET, cluster.url.partition("://")[2])
    text = text.replace(FOLDER, str(folder)).replace("scrape_interval: 30s", "scrape_interval: 1s")
    (process,) = re.findall(
        r"^  - job_name: windlass\n.*?(?=^  - )", text, re.DOTALL | re.MULTILINE
    )
    process = process.replace("job_name: windlass", "job_name: windlass-process")
    text += process.replace("/prom/det-state-metrics", "/debug/prom/metrics")
    return f"rule_files: [rules.yml]\n{text}"


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    assert PROMETHEUS is not None
    assert PROMTOOL is not None
    folder = tmp_path_factory.mktemp("prometheus")
    config = {"resource_pools": [{"pool_name": "default"}]}
    with RealCluster(folder / "cluster", config) as cluster:
        cluster.start_agent("node-1", slots=2)
        (folder / "windlass-token").write_text(str(cluster.client.session.token))
        (folder / "prometheus.yml").write_text(configuration(cluster, folder))
        (rules,) = blocks("groups:")
        (folder / "rules.yml").write_text(rules)
        subprocess.run([PROMTOOL, "check", "config", folder / "prometheus.yml"], check=True)
        port = free_port()
        with (
            (folder / "log").open("wb") as log,
            closing(
                _Process(
                    [
                        *(PROMETHEUS, f"--config.file={folder}/prometheus.yml"),
                        *(
                            f"--storage.tsdb.path={folder}/data",
                            f"--web.listen-address=127.0.0.1:{port}",
                        ),
                    ],
                    log,
                )
            ),
        ):
            there = Monitored(cluster, f"http://127.0.0.1:{port}")

            def has_scraped() -> bool:
                try:
                    return len(there.value_of("up == 1")) >= 2
                except httpx.HTTPError:
                    return False

            eventually("both pages of the master are read", has_scraped)
            yield there


class _Process:
    def __init__(self, command: Sequence[str], log: Any) -> None:
        self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def test_the_metrics_are_there_with_their_values(monitored: Monitored) -> None:
    slots = monitored.value_of('sum(windlass_slots{pool="default"})')
    assert slots[0]["value"][1] == "2"
    assert monitored.value_of('process_resident_memory_bytes{job="windlass-process"}')


def test_machines_are_discovered(monitored: Monitored) -> None:
    def labels() -> list[dict[str, str]]:
        active = monitored.ask("targets", state="active")["activeTargets"]
        return [one["labels"] for one in active if one["scrapePool"] == "machines"]

    eventually("the machine's exporters are targets", lambda: len(labels()) == 2)
    assert {one["det_agent_id"] for one in labels()} == {"node-1"}
    assert {one["det_resource_pool"] for one in labels()} == {"default"}
    assert {one["instance"].rpartition(":")[2] for one in labels()} == {"8080", "9400"}


def test_the_alerts_are_rules_that_can_be_computed(monitored: Monitored) -> None:
    groups = monitored.ask("rules")["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    (written,) = blocks("groups:")
    names = [
        rule["alert"] for group in yaml.safe_load(written)["groups"] for rule in group["rules"]
    ]
    assert [rule["name"] for rule in rules] == names

    def health() -> set[str]:
        groups = monitored.ask("rules")["groups"]
        return {rule["health"] for group in groups for rule in group["rules"]}

    eventually("all have been computed once", lambda: "unknown" not in health())
    assert health() == {"ok"}


def test_every_expression_of_the_dashboard_has_an_answer(monitored: Monitored) -> None:
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    targets = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    assert targets
    for expression in targets:
        text = expression.replace("$__rate_interval", "1m").replace("$__range", "1h")
        text = re.sub(r"\$\{?pool(:\w+)?\}?", ".*", text).replace("$__interval", "1m")
        assert "$" not in text, text
        monitored.value_of(text)
