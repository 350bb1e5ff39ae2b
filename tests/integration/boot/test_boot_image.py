"""The agent's software from a container image: user data that really runs, beside a podman that answers as told."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from agent_bootstrap.scripts.boot_files import BootSettings
from agent_bootstrap.scripts.user_data import UserDataInputs, user_data
from tests.fakes.boot_master import BootMaster
from tests.fakes.cloud_machine import CloudMachine
from tests.fakes.image_registry import PASSWORD, USER, serving
from tests.podman import Podman
from windlass.base.packages import VERSION

SECRET = "hunter2-of-the-registry"
IMAGE = "registry.example/team/windlass:1"
SETTINGS = BootSettings(image=IMAGE, registries={"registry.example": {"auth": SECRET}})
SYSTEM = "/usr/bin:/bin"
PODMAN = """
echo "$*" >>"$HOME/calls"
cp "$REGISTRY_AUTH_FILE" "$HOME/auth.json"
cmp -s "$REGISTRY_AUTH_FILE" "$DOCKER_CONFIG/config.json" || exit 99
case $1 in
  pull) [ ! -s "$HOME/refuses" ] || { sed -i 1d "$HOME/refuses"; echo "no such host"; exit 125; } ;;
  create) echo "a warning of the engine"; echo c0ffee ;;
  cp) cp -r "$HOME/image/." "$3" ;;
esac
"""


@pytest.fixture
def master(master: BootMaster) -> BootMaster:
    master.settings = SETTINGS
    return master


@pytest.fixture
def machine(machine: CloudMachine) -> CloudMachine:
    machine.home.program("podman", PODMAN)
    machine.put_in_image(VERSION)
    return machine


def calls(machine: CloudMachine) -> list[str]:
    return (machine.home.home / "calls").read_text().splitlines()


def test_software_comes_from_the_image_with_the_login_of_its_registry(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert machine.exit_code == 0, console
    assert "i-0123456789 has joined" in console
    assert [stage for _, stage, _ in master.stages] == ["stub", "image", "join"]
    assert calls(machine) == [
        f"pull -q {IMAGE}",
        f"create {IMAGE} true",
        f"cp c0ffee:/opt/windlass/. {machine.prefix}",
        "rm -f c0ffee",
        f"rmi {IMAGE}",
    ]
    said = json.loads((machine.home.home / "auth.json").read_text())
    assert said == {"auths": {"registry.example": {"auth": SECRET}}}
    assert SECRET not in console + user_data(inputs) + "".join(calls(machine))
    kept = [path for path in machine.state.rglob("*") if path.is_file()]
    assert not [path for path in kept if path.stat().st_mode & 0o077], "only root reads them"
    assert not [path for path in kept if SECRET in path.read_text()], "no disk image has it either"

    (machine.state / "joined").unlink()
    assert machine.boot(user_data(inputs), path=SYSTEM)
    assert len(calls(machine)) == 5, "a reboot installs nothing"


def test_an_image_that_cannot_be_pulled_is_tried_again_and_named(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    (machine.home.home / "refuses").write_text("once\ntwice\n")
    console = machine.boot(user_data(replace(inputs, patience_s=100)), path=SYSTEM)
    assert machine.exit_code == 0, console
    assert calls(machine).count(f"pull -q {IMAGE}") == 3
    assert f"waiting: the image {IMAGE} cannot be pulled: no such host" in console


def test_an_image_of_another_release_is_refused(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs
) -> None:
    machine.put_in_image("0.0.1")
    console = machine.boot(user_data(inputs), path=SYSTEM)
    assert machine.has_ended_itself
    assert f"the image {IMAGE} has no windlass {VERSION} in /opt/windlass/current/bin" in console


def test_a_machine_without_an_engine_says_so(
    master: BootMaster, machine: CloudMachine, inputs: UserDataInputs, tmp_path: Path
) -> None:
    (machine.home.bin / "podman").unlink()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "curl", "tar", "flock", "cut", "tail", "tr", "cat", "mkdir", "rm", "mv"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    for name in ("chmod", "touch", "sleep", "env"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    script = user_data(replace(inputs, patience_s=3)).replace("PATH=$PATH:", "PATH=$PATH #")
    console = machine.boot(script, path=str(tools))
    assert machine.has_ended_itself, console
    assert "has neither podman nor docker, which agent_docker_image needs" in console


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_engine_takes_it_from_a_registry_with_a_login(
    master: BootMaster,
    machine: CloudMachine,
    inputs: UserDataInputs,
    podman: Podman,
    tmp_path: Path,
) -> None:
    before = set(podman.run("ps", "--all", "--quiet").split())
    image = f"127.0.0.1:{podman.registry_port}/windlass:1"
    archive = tmp_path / "image.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(machine.home.home / "image", "opt/windlass")
    podman.run("import", str(archive), image)
    podman.run("save", "--format", "oci-dir", "--output", str(tmp_path / "oci"), image)
    podman.run("rmi", image)
    given = {k: v for k, v in podman.environment.items() if k.startswith("CONTAINERS_")}
    _, *options = podman._command()
    program = shutil.which("podman") or "podman"
    words = ["env", *(f"{k}={v}" for k, v in given.items()), program, *options]
    machine.home.program("podman", f'exec {shlex.join(words)} "$@"')
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    server = f"127.0.0.1:{podman.registry_port}"
    master.settings = BootSettings(image=image, registries={server: {"auth": login}})
    with serving(tmp_path / "oci", podman.registry_port) as registry:
        console = machine.boot(user_data(replace(inputs, patience_s=120)), path=SYSTEM)
        assert machine.exit_code == 0, console
        assert registry.pulls
    assert "has joined" in console
    assert (machine.prefix / "current/bin/windlass").exists()
    assert image not in podman.run("images", "--format", "{{.Names}}")
    assert set(podman.run("ps", "--all", "--quiet").split()) <= before, "it leaves no container"
