"""`up` and `down` by the real Terraform, on a stand-in stack: order, progress, errors, half-made states."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from windlass.base.errors import Conflict, InvalidState, NotFound, ProviderError
from windlass.base.formats.json_types import JsonObject
from windlass.deploy.cloud.aws.options import AwsOptions
from windlass.deploy.cloud.aws.plan import aws_plan
from windlass.deploy.cloud.cluster import CloudCluster
from windlass.deploy.cloud.parsing import parse
from windlass.deploy.cloud.state_folder import DeployPhase, folder_of
from windlass.deploy.cloud.terraform import Terraform

pytestmark = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not on PATH"
)
STAND_IN = Path(__file__).parent / "stand_in"
PASSWORD = "a-word-that-is-nowhere"


class FakeMachines:
    """Those of pools: they are gone at the second look after they were ended."""

    def __init__(self, events: Path, ids: Sequence[str] = (), masters: Sequence[str] = ()) -> None:
        self.events = events
        self.alive = list(ids)
        self.ending: list[str] = []
        self._masters = masters

    def masters(self) -> Sequence[str]:
        return self._masters

    def listed(self) -> list[str]:
        return [*self.alive, *self.ending]

    def end(self, ids: Sequence[str]) -> None:
        with self.events.open("a") as file:
            file.write(f"end {' '.join(ids)}\n")
        self.ending = self.alive
        self.alive = []


class Site:
    """A place with one cluster."""

    def __init__(self, tmp_path: Path) -> None:
        self.folder = folder_of("aws", "lab", tmp_path)
        self.events = tmp_path / "aws" / "events"
        self.said: list[str] = []
        self.cluster = CloudCluster(
            folder=self.folder, say=self.said.append, modules=STAND_IN, pause_s=0
        )

    def up(self, **given: Any) -> JsonObject | None:
        base = {"cluster_id": "lab", "region": "us-west-2", "yes": True}
        plan = aws_plan(parse(AwsOptions, {**base, **given}, "options"), ())
        return self.cluster.up(plan, agree=lambda changes: True)

    def down(
        self,
        machines: Sequence[str] = (),
        *,
        delete_data: bool = False,
        masters: Sequence[str] = (),
        end_others: bool = False,
    ) -> list[str]:
        """`masters`: those that the cloud still has when ours is removed."""
        found = FakeMachines(self.events, machines, masters)
        return self.cluster.down(
            found, delete_data=delete_data, end_others=lambda others: end_others
        )

    def happened(self) -> list[str]:
        """Since the last time."""
        lines = self.events.read_text().splitlines() if self.events.exists() else []
        self.events.unlink(missing_ok=True)
        return [line.strip() for line in lines]

    def fails(self, module: str) -> Path:
        file = self.events.with_name(f"fail-{module}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return file

    @property
    def phase(self) -> DeployPhase | None:
        record = self.folder.record
        return None if record is None else record.phase


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def whole_text(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file())
    return "".join(path.read_text(errors="replace") for path in files)


def test_a_half_made_cluster_says_why_and_goes_on(site: Site) -> None:
    blocked = site.fails("master")
    with pytest.raises(ProviderError) as error:
        site.up(initial_user_password=PASSWORD)
    assert "module.master.terraform_data.it: local-exec provisioner error" in error.value.message
    assert "things are there: run up again to go on, or down to remove it" in error.value.message
    assert "\n" not in error.value.message
    assert site.phase is DeployPhase.MAKING
    assert [line for line in site.happened() if "master" in line] == []
    blocked.unlink()

    outputs = site.up(initial_user_password=PASSWORD)

    assert outputs is not None
    assert outputs["master_address"] == "203.0.113.5"
    assert site.phase is DeployPhase.UP
    # What was made with the first version gets the second one with it: the passwords agree again.
    assert site.happened()[-1] == "make master m6i.large version 2"
    assert site.said[-1] == "Making module.master.terraform_data.it (4 of 4)"
    assert PASSWORD not in whole_text(site.folder.path)


@pytest.mark.slow
def test_a_cluster_from_its_first_day_to_its_last(site: Site) -> None:
    site.up(db_password=PASSWORD)
    assert site.happened()[-1] == "make master m6i.large version 1"

    site.up(db_password=PASSWORD)
    assert site.happened() == []
    record = site.folder.record
    assert record is not None
    assert (record.secrets_version, record.written_version) == (1, 1)

    left = site.down(["i-1", "i-2"])
    happened = site.happened()
    assert happened[:2] == ["remove master", "end i-1 i-2"]
    assert set(happened[-2:]) == {"remove roles", "remove address"}
    assert site.phase is DeployPhase.DOWN
    assert sorted({address.split(".")[1].split("[")[0] for address in left}) == [
        *("bucket", "database", "network", "secret")
    ]

    assert site.down() == left
    assert site.happened() == []

    site.up(db_password=PASSWORD)
    assert set(site.happened()) == {"make roles", "make address", "make master m6i.large version 1"}

    assert site.down(["i-3"], delete_data=True) == []
    happened = site.happened()
    assert happened[:2] == ["remove master", "end i-3"]
    assert {line for line in happened if "bucket" in line} == {"remove bucket"}
    assert not site.folder.path.exists()
    with pytest.raises(NotFound, match="there are none"):
        site.cluster.known()


def test_a_state_that_cannot_be_read_is_not_an_empty_one(site: Site) -> None:
    """A removal that took it for that would say that nothing is left, and what there is would go on costing money."""
    site.folder.path.mkdir(parents=True)
    (site.folder.path / "terraform.tfstate").write_text("{torn")
    terraform = Terraform(folder=site.folder.path, say=site.said.append)
    with pytest.raises(ProviderError, match="could not be parsed"):
        terraform.resources()
    (site.folder.path / "terraform.tfstate").unlink()
    assert terraform.resources() == []


@pytest.mark.slow
def test_a_removal_goes_on_where_it_failed(site: Site) -> None:
    site.up(database="local")
    site.happened()
    blocked = site.fails("address")
    with pytest.raises(ProviderError, match=r"module\.address"):
        site.down(["i-1"], delete_data=True)
    assert site.phase is DeployPhase.REMOVING
    assert site.happened()[:2] == ["remove master", "end i-1"]
    blocked.unlink()
    # It was begun with --delete-data, and is ended so.
    assert site.down() == []
    assert "remove address" in site.happened()


@pytest.mark.slow
def test_machines_of_a_master_that_the_state_does_not_have_are_kept(site: Site) -> None:
    """`up` on another computer without the bucket of a cluster that runs: its state is another, the name the same."""
    blocked = site.fails("master")
    with pytest.raises(ProviderError):
        site.up()
    site.happened()
    blocked.unlink()
    running = ["203.0.113.9"]
    assert site.down(["i-1"], delete_data=True, masters=running) == ["i-1"]
    happened = site.happened()
    assert not [line for line in happened if line.startswith("end")]
    assert "remove bucket" in happened
    assert not site.folder.path.exists()

    # Whoever is there may say that they end, too.
    site.up()
    site.happened()
    assert "i-1" not in site.down(["i-1"], masters=running, end_others=True)
    assert site.happened()[:2] == ["remove master", "end i-1"]


def test_options_that_would_delete_data_are_refused(site: Site) -> None:
    site.up()
    site.happened()
    with pytest.raises(InvalidState, match=r"would delete data: module\.database\[0\]"):
        site.up(database="local")
    assert site.happened() == []
    assert site.phase is DeployPhase.UP


def test_nothing_is_made_where_the_answer_is_no(site: Site) -> None:
    base = {"cluster_id": "lab", "region": "us-west-2"}
    plan = aws_plan(parse(AwsOptions, base, "options"), ())
    shown: list[tuple[str, str]] = []

    def look(changes: Sequence[tuple[str, str]]) -> bool:
        shown.extend(changes)
        return False

    assert site.cluster.up(plan, agree=look) is None
    assert ("create", "module.master.terraform_data.it") in shown
    assert (site.happened(), site.phase) == ([], None)
    assert json.loads((site.folder.path / "terraform.tfvars.json").read_text())["region"]


def test_two_commands_on_one_cluster_do_not_meet(site: Site) -> None:
    with site.folder.locked(), pytest.raises(Conflict, match="wait until it ends"):
        site.up()


def test_without_terraform_one_sentence_says_where_to_get_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidState, match="not on PATH: install it, see https://"):
        site.up()
    old = tmp_path / "terraform"
    old.write_text('#!/bin/sh\necho \'{"terraform_version": "1.5.7"}\'\n')
    old.chmod(0o755)
    with pytest.raises(InvalidState, match=r"1\.5\.7 is too old: 1\.11 or newer"):
        site.up()
    assert site.phase is None


def test_plug_ins_that_cannot_be_had_say_the_way_out(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Our own modules need plug-ins; an empty folder stands for a registry without them.
    config = tmp_path / "terraform.rc"
    (tmp_path / "mirror").mkdir()
    config.write_text(
        'provider_installation {\n  filesystem_mirror {\n    path = "%s"\n  }\n}\n'
        % (tmp_path / "mirror")
    )
    monkeypatch.setenv("TF_CLI_CONFIG_FILE", str(config))
    ours = CloudCluster(folder=site.folder, say=site.said.append)
    plan = aws_plan(parse(AwsOptions, {"cluster_id": "lab", "region": "us-west-2"}, "o"), ())
    with pytest.raises(ProviderError, match="name a mirror in TF_CLI_CONFIG_FILE"):
        ours.up(plan, agree=lambda changes: True)
    assert site.phase is None
