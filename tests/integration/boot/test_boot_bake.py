"""A machine is baked by its user data, and a machine of what it leaves boots without installing anything."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.boot_files import BootSettings
from agent_bootstrap.scripts.user_data import UserDataInputs, user_data
from tests.fakes.boot_master import BootMaster
from tests.fakes.cloud_machine import CloudMachine, metadata_service
from windlass.base.packages import VERSION

SYSTEM = "/usr/bin:/bin"
SECRET = "hunter2-of-the-registry"
TASKS = ("registry.example/team/train:1", "registry.example/team/eval:2")
SETTINGS = BootSettings(
    startup_script='#!/bin/sh\necho packages >>"$HOME/installed"\n',
    machine_script='#!/bin/sh\necho mounted >>"$HOME/mounted"\n',
    image="registry.example/team/windlass:1",
    bake_images=TASKS,
    registries={"registry.example": {"auth": SECRET}},
)
PODMAN = """
echo "$*" >>"$HOME/calls"
case $1 in
  pull) [ ! -s "$HOME/refuses" ] || { cat "$HOME/refuses"; exit 125; } ;;
  create) echo c0ffee ;;
  cp) cp -r "$HOME/image/." "$3" ;;
esac
"""
OF_ONE_MACHINE = (
    *("etc/ssh/ssh_host_rsa_key", "etc/ssh/ssh_host_rsa_key.pub", "root/.ssh/authorized_keys"),
    *("home/ubuntu/.ssh/authorized_keys", "home/ubuntu/.bash_history", "var/lib/dbus/machine-id"),
    *("var/lib/cloud/instance/user-data.txt", "var/lib/cloud/data/instance-id"),
    *("var/lib/systemd/random-seed", "var/log/journal/1/system.journal", "tmp/left"),
)


@pytest.fixture
def master(master: BootMaster) -> BootMaster:
    master.settings, master.bake = SETTINGS, True
    return master


@pytest.fixture
def machine(machine: CloudMachine) -> CloudMachine:
    machine.home.program("podman", PODMAN)
    machine.put_in_image(VERSION)
    for name in (*OF_ONE_MACHINE, "etc/machine-id", "var/log/syslog", "etc/hosts"):
        path = machine.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of {name}")
    return machine


@pytest.fixture
def inputs(inputs: UserDataInputs) -> UserDataInputs:
    return replace(inputs, intent_id="bake-1", patience_s=30)


def lines(machine: CloudMachine, name: str) -> list[str]:
    path = machine.home.home / name
    return path.read_text().splitlines() if path.exists() else []


def stages(master: BootMaster) -> list[str]:
    return [stage for _, stage, _ in master.stages]


def test_a_bake_installs_all_and_leaves_nothing_of_its_machine(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert machine.exit_code == 0, console
    assert machine.has_ended_itself, "it stops, so that its disk becomes the image"
    wanted = ["stub", "startup-script", "image", "images", "images", "clean", "baked"]
    assert stages(master) == wanted
    assert [f"pull -q {image}" for image in TASKS] == lines(machine, "calls")[-2:]
    assert lines(machine, "installed") == ["packages"]
    assert not lines(machine, "mounted"), "what is of one machine is not on the image"
    assert not machine.home.config.exists(), "it is no agent"
    left = [name for name in OF_ONE_MACHINE if (machine.root / name).exists()]
    assert left == []
    assert (machine.root / "etc/machine-id").read_text() == ""
    assert (machine.root / "var/log/syslog").read_text() == ""
    assert (machine.root / "etc/hosts").read_text() == "of etc/hosts"
    assert not machine.state.exists()
    kept = [path for path in machine.state.parent.rglob("*") if path.is_file()]
    told = machine.home.home / "user-data"
    for path in kept:
        text = "" if path == told else path.read_text(errors="replace")
        assert inputs.launch_token not in text, path
        assert SECRET not in text, path


@pytest.mark.parametrize("cloud", list(Cloud))
def test_the_next_boot_installs_nothing(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs, cloud: Cloud
) -> None:
    inputs = replace(inputs, cloud=cloud)
    machine.boot(user_data(inputs), path=SYSTEM)
    engine_calls = len(lines(machine, "calls"))
    master.bake = False
    master.stages.clear()
    with metadata_service("i-9876543210") as metadata:
        machine.wake(metadata)
        following = machine
        console = following.boot(user_data(replace(inputs, intent_id="launch-2")), path=SYSTEM)
        assert following.exit_code == 0, console
        assert "i-9876543210 has joined" in console
        assert stages(master) == ["stub", "machine-script", "join"]
        assert lines(following, "installed") == ["packages"], "while the image was made"
        assert lines(following, "mounted") == ["mounted"]
        assert len(lines(following, "calls")) == engine_calls, "nothing is pulled"
        assert "wheels" not in "".join(master.asked)
        assert not following.has_ended_itself

        master.settings = replace(
            SETTINGS, startup_script="#!/bin/sh\necho more >>$HOME/installed\n"
        )
        (following.state / "joined").unlink()
        shutil.rmtree(following.state)
        following.boot(user_data(inputs), path=SYSTEM)
        assert lines(following, "installed") == ["packages", "more"], "another script runs"


def test_a_newer_release_of_the_master_is_installed_over_what_was_baked(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    machine.boot(user_data(inputs), path=SYSTEM)
    old = machine.prefix / "current/bin/windlass"
    old.write_text(old.read_text().replace(VERSION, "0.0.1"))
    calls = len(lines(machine, "calls"))
    master.bake = False
    machine.wake(machine.metadata)
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert machine.exit_code == 0, console
    assert lines(machine, "calls")[calls] == f"pull -q {SETTINGS.image}"
    assert VERSION in old.read_text()


def test_another_container_image_of_the_same_version_is_taken(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    machine.boot(user_data(inputs), path=SYSTEM)
    calls = len(lines(machine, "calls"))
    master.bake = False
    master.settings = replace(SETTINGS, image="registry.example/team/windlass@sha256:2")
    machine.wake(machine.metadata)
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert machine.exit_code == 0, console
    assert lines(machine, "calls")[calls] == "pull -q registry.example/team/windlass@sha256:2"


PYTHON = """
case "$1 $2" in
  "-m venv")
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python" ;;
  "-m pip")
    [ ! -e "$HOME/pip-fails" ] || exit 9
    echo pip >>"$HOME/calls"
    printf '#!/bin/sh\n[ "$1" != --version ] || echo windlass VERSION\n' >"${0%/*}/windlass"
    chmod 755 "${0%/*}/windlass" ;;
esac
""".replace("VERSION", VERSION)


def test_another_wheel_of_the_same_version_is_installed_over_what_was_baked(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    """And an installation that did not end counts as none."""
    master.settings = BootSettings()
    master.wheels = {"windlass_cluster-1-py3-none-any.whl": b"one"}
    machine.home.program("python3.14", PYTHON)

    def booted() -> list[str]:
        master.stages.clear()
        machine.wake(machine.metadata) if machine.has_ended_itself else None
        console = machine.boot(user_data(inputs), path=SYSTEM)
        assert (machine.exit_code == 0) != (machine.home.home / "pip-fails").exists(), console
        shutil.rmtree(machine.state, ignore_errors=True)
        return stages(master)

    assert booted() == ["stub", "software", "clean", "baked"]
    master.bake = False
    assert booted() == ["stub", "join"], "the next boot installs nothing"
    master.wheels = {"windlass_cluster-1-py3-none-any.whl": b"two"}
    (machine.home.home / "pip-fails").touch()
    assert booted() == ["stub", "software", "failed"]
    (machine.home.home / "pip-fails").unlink()
    assert booted() == ["stub", "software", "join"]
    assert booted() == ["stub", "join"]
    assert lines(machine, "calls") == ["pip", "pip"]


def test_an_image_that_cannot_be_pulled_ends_the_bake_and_says_which(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    master.settings = replace(SETTINGS, image="")
    program = machine.home.bin / "windlass"
    program.write_text(f"#!/bin/sh\necho windlass {VERSION}\n")
    program.chmod(0o755)
    (machine.home.home / "refuses").write_text("no such host")
    console = machine.boot(user_data(replace(inputs, patience_s=2)), path=SYSTEM)
    assert machine.has_ended_itself
    assert f"the image {TASKS[0]} cannot be pulled: no such host" in console
    assert stages(master)[-1] == "failed"


def test_the_machine_stops_only_when_its_word_was_written_down(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    master.refusals = [503, 503]
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert machine.exit_code == 0, console
    assert stages(master).count("baked") == 3
    assert "waiting: the master has not taken that everything is installed" in console


def test_a_machine_that_lacks_what_is_removed_is_baked_all_the_same(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    shutil.rmtree(machine.root)
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert "has everything, and stops" in console
    assert stages(master)[-1] == "baked"
