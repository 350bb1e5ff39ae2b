"""User data that really runs, and what goes wrong: each is one sentence for the console and the master, and the end of
the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.boot_files import BootSettings
from agent_bootstrap.scripts.user_data import UserDataInputs, user_data
from tests.certificates import Authority
from tests.fakes.boot_master import BootMaster
from tests.fakes.cloud_machine import CloudMachine

SECRET = "hunter2-of-the-registry"


def test_a_startup_script_that_fails_ends_the_machine(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    script = f"#!/bin/sh\necho {SECRET}\nprintf '\\377\\000\\033[31mbinary'\nexit 3\n"
    master.settings = BootSettings(startup_script=script)
    console = machine.boot(user_data(inputs))
    assert machine.exit_code == 1
    assert machine.has_ended_itself
    assert "the pool's startup_script ended with exit code 3" in console
    assert SECRET not in console, "consoles are read by many"
    assert inputs.launch_token not in console
    names = [stage for _, stage, _ in master.stages]
    assert names == ["stub", "startup-script", "failed"]
    machine_id, _, said = master.stages[-1]
    assert machine_id == "i-0123456789"
    words, details = said.split("\n")
    assert SECRET not in words
    assert details.isprintable()
    assert details.endswith("binary")
    kept = [path for path in machine.state.rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if path.stat().st_mode & 0o077], "only root reads them"


def test_a_token_that_is_refused_ends_the_machine_at_once(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    console = machine.boot(
        user_data(replace(inputs, launch_token="launch.e30.stolen", patience_s=9000))
    )
    assert machine.has_ended_itself
    assert "the master refused this machine" in console
    assert "not the token of a launch" in console
    assert master.fetched == 0


def test_a_master_that_does_not_know_the_machine_yet_is_asked_again(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    master.answers = [(409, "the provider has not said yet"), (503, "not ready")]
    master.settings = BootSettings(startup_script="exit 9")
    console = machine.boot(user_data(replace(inputs, patience_s=60)))
    assert "HTTP 409" in console
    assert "HTTP 503" in console
    assert master.fetched == 1
    assert "exit code 9" in console


def test_a_machine_without_a_master_ends_itself(
    machine: CloudMachine, inputs: UserDataInputs
) -> None:
    console = machine.boot(user_data(replace(inputs, master_url="https://127.0.0.1:1")))
    assert machine.has_ended_itself
    assert "no agent after 3 s: no answer from https://127.0.0.1:1" in console


def test_another_masters_certificate_is_not_trusted(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other").root.read_text()
    console = machine.boot(user_data(replace(inputs, master_cert=other)))
    assert machine.has_ended_itself
    assert "SSL certificate problem" in console
    assert master.fetched == 0
    assert master.stages == [], "nobody else is told the token"


def test_a_machine_whose_metadata_service_does_not_answer_ends_itself(
    master: BootMaster, inputs: UserDataInputs, tmp_path: Path
) -> None:
    machine = CloudMachine(tmp_path / "machine", "http://127.0.0.1:1")
    console = machine.boot(user_data(inputs))
    assert machine.has_ended_itself
    assert "no instance id from http://127.0.0.1:1" in console


def test_on_gcp_it_is_called_as_its_metadata_say(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    master.settings = BootSettings(startup_script="exit 1")
    machine.boot(user_data(replace(inputs, cloud=Cloud.GCP)))
    assert {name for name, _, _ in master.stages} == {"i-0123456789"}
