"""Pulling for real: a registry on this machine, with a login, and Podman."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.engine import images as engine_images
from agent_bootstrap.agent.runtimes.engine.connection import find_engine
from agent_bootstrap.agent.runtimes.engine.image_record import ImageRecord
from agent_bootstrap.agent.runtimes.engine.images import Images
from agent_bootstrap.protocol import RegistryCredentials
from tests.fakes.image_registry import PASSWORD, USER, Registry, serving
from tests.podman import BARE, Podman

SERVED = "localhost/served:1"
GOOD = RegistryCredentials(username=USER, password=PASSWORD)


@pytest.fixture(scope="module")
def registry(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("registry") / "bare"
    made = podman.run("create", BARE, "true")
    podman.run("commit", "--quiet", "--change", "LABEL served=1", made, SERVED)
    podman.run("save", "--quiet", "--format", "oci-dir", "-o", str(folder), SERVED)
    podman.run("rm", made)
    podman.run("rmi", SERVED)
    with serving(folder, podman.registry_port) as running:
        yield running


@pytest.fixture
def images(podman: Podman, tmp_path: Path) -> Images:
    engine = find_engine("podman", str(podman.socket))
    return Images(engine, ImageRecord(tmp_path, limit_bytes=0))


def pull(images: Images, name: str, login: RegistryCredentials | None) -> list[str]:
    said: list[str] = []
    images.pull(name, login, lambda text, level="INFO": said.append(text), threading.Event())
    return said


def test_an_image_is_pulled_with_its_login_used_and_removed_beyond_the_bound(
    images: Images, registry: Registry, podman: Podman
) -> None:
    name = f"127.0.0.1:{registry.port}/team/bare:1"
    assert not images.is_here(name)
    said = pull(images, name, GOOD)
    assert said[0] == f"Pulling image {name}"
    assert said[-1].startswith(f"Pulled image {name} in ")
    assert images.is_here(name)
    taken = images.take(name, {})
    assert taken.accounts["/etc/passwd"].startswith("root:x:0:0")
    asked = registry.pulls
    pull(images, name, GOOD)  # force_pull_image
    assert registry.pulls > asked
    busy = podman.run("create", name, "true")
    images.trim()
    assert images.is_here(name), "a container has it"
    podman.run("rm", busy)
    images.trim()
    assert not images.is_here(name)
    assert images.is_here(BARE), "it was here before us"


def test_what_looks_into_an_image_is_found_if_the_agent_dies_there(
    images: Images, podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = "windlass.agent=looks-into-images"
    found: list[str] = []

    def containers() -> str:
        return podman.run("ps", "--all", "--quiet", "--filter", f"label={label}")

    def look(*_: object) -> None:
        found.append(containers())

    monkeypatch.setattr(engine_images, "_file_in", look)
    images.take(BARE, dict([label.split("=")]))
    assert found
    assert all(found)
    assert not containers()


@pytest.mark.parametrize("login", [None, RegistryCredentials(username=USER, password="wrong")])
def test_a_login_that_is_missing_or_wrong_is_told_in_one_sentence(
    login: RegistryCredentials | None, images: Images, registry: Registry
) -> None:
    name = f"127.0.0.1:{registry.port}/team/other:1"
    with pytest.raises(
        StartRefused, match=r"the registry refused image .*registry_auth"
    ) as refused:
        pull(images, name, login)
    assert "wrong" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_tag_that_is_not_there_is_told(images: Images, registry: Registry) -> None:
    name = f"127.0.0.1:{registry.port}/team/bare:none"
    with pytest.raises(StartRefused, match="does not exist: check the name and the tag"):
        pull(images, name, GOOD)


def test_a_pull_that_is_given_up_ends(images: Images, registry: Registry) -> None:
    given_up = threading.Event()
    given_up.set()
    name = f"127.0.0.1:{registry.port}/team/again:1"
    with pytest.raises(StartRefused, match="killed before it was started"):
        images.pull(name, GOOD, lambda *_: None, given_up)
