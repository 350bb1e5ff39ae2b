"""Images of tasks on this machine: pulled when they are missing, and removed when they take too much of the disk."""

from __future__ import annotations

import io
import logging
import tarfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import RequestException

from agent_bootstrap.agent.runtimes.accounts import GROUP, PASSWD
from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.engine.connection import Engine
from agent_bootstrap.agent.runtimes.engine.image_names import image_name, registry_of
from agent_bootstrap.agent.runtimes.engine.image_record import ImageRecord
from agent_bootstrap.agent.runtimes.pulls import (
    FULL_DISK,
    LASTING,
    login_for,
    pull_refused,
    says,
)
from agent_bootstrap.agent.runtimes.setup import killed_early
from agent_bootstrap.agent.runtimes.task_lines import Say
from agent_bootstrap.protocol import ExitFailure, RegistryCredentials

if TYPE_CHECKING:
    from docker import APIClient

LINE_EVERY_S = 5.0
DONE = ("download complete", "pull complete", "already exists")
PULL_LIMIT_S = 900.0
"""Without a word from the engine: large layers are unpacked in silence."""
PULL_TRIES = 3
AGAIN_S = 2.0
MAX_ACCOUNTS_BYTES = 1 << 20


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalImage:
    """One that is on this machine."""

    id: str
    entrypoint: tuple[str, ...]
    accounts: Mapping[str, str]
    """Its passwd and group by path, as far as it has them."""


class Images:
    """Of one engine. All calls block; for threads. Raises StartRefused with a sentence."""

    def __init__(self, engine: Engine, record: ImageRecord) -> None:
        self._engine = engine
        self._record = record

    def is_here(self, name: str) -> bool:
        with self._engine.client() as client:
            return self._found(client, image_name(name)) is not None

    def add(self, name: str, layer: bytes) -> None:
        """Make it of an archive, unless it is here."""
        with self._engine.client() as client:
            if self._found(client, name) is None:
                # Podman does not hear of a tag that is given apart.
                client.import_image_from_data(layer, repository=name)

    def pull(
        self, name: str, login: RegistryCredentials | None, say: Say, given_up: threading.Event
    ) -> None:
        """With its progress as lines of the task. Stops at the next word of the engine once it is `given_up`."""
        reference = image_name(name)
        auth = _usable(login, reference, say)
        say(f"Pulling image {reference}")
        began = time.monotonic()
        problem = ""
        for attempt in range(PULL_TRIES):
            problem = self._pull_once(reference, auth, say, given_up)
            if not problem:
                say(f"Pulled image {reference} in {time.monotonic() - began:.0f} s")
                return
            if says(problem, FULL_DISK) and self._remove_unused(keep_bytes=0):
                say("The disk is full: removed images that no task uses, and pull again")
                continue
            is_last = says(problem, LASTING) or attempt == PULL_TRIES - 1
            if is_last or given_up.wait(AGAIN_S * 2**attempt):
                break
        raise pull_refused(reference, problem, with_login=auth is not None)

    def take(self, name: str, labels: Mapping[str, str]) -> LocalImage:
        """What a task needs to know of it. It counts as used from now on, and makes others leave if there are many.

        `labels`: of a container that may be made to look into it; by them it is found if this process dies meanwhile.
        """
        reference = image_name(name)
        with self._engine.client() as client:
            found = self._found(client, reference)
            if found is None:
                raise StartRefused(
                    ExitFailure.ABORTED, f"image {reference} was removed before the task began"
                )
            image_id = str(found["Id"])
            accounts = self._record.accounts(image_id)
            if accounts is None:
                accounts = _read_accounts(client, image_id, labels)
            self._record.used(image_id, reference, accounts)
        config = found.get("Config") or {}
        return LocalImage(
            id=image_id, entrypoint=tuple(config.get("Entrypoint") or ()), accounts=accounts
        )

    def trim(self) -> None:
        """Remove what was pulled for tasks and not used for longest, as far as it is beyond the bound."""
        if self._record.limit_bytes is not None:
            self._remove_unused(keep_bytes=self._record.limit_bytes)

    def _pull_once(
        self, reference: str, auth: dict[str, str] | None, say: Say, given_up: threading.Event
    ) -> str:
        """What went wrong; empty if nothing did."""
        progress = PullProgress(reference)
        try:
            with self._engine.client(PULL_LIMIT_S) as client:
                before = {str(one["Id"]) for one in client.images(all=True)}
                words = client.pull(reference, stream=True, decode=True, auth_config=auth)
                for word in words:
                    if given_up.is_set():
                        raise killed_early()
                    if problem := word.get("error"):
                        return str(problem)
                    if line := progress.line(word, time.monotonic()):
                        say(line)
                after = self._found(client, reference)
                if after is None:
                    return f"image {reference} not found after the pull"
                if str(after["Id"]) not in before:
                    self._record.pulled(str(after["Id"]), reference)
        except (DockerException, RequestException) as error:
            return explanation(error)
        return ""

    def _found(self, client: APIClient, reference: str) -> dict[str, Any] | None:
        try:
            untyped: Any = client
            found: dict[str, Any] = untyped.inspect_image(reference)
        except (ImageNotFound, NotFound):
            return None
        return found

    def _remove_unused(self, keep_bytes: int) -> bool:
        """Whether one was removed."""
        with self._engine.client() as client:
            sizes = {str(one["Id"]): int(one.get("Size") or 0) for one in client.images(all=False)}
            busy = {str(one.get("ImageID")) for one in client.containers(all=True)}
            leaving = self._record.leaving(sizes, busy, keep_bytes)
            removed = False
            for image_id in leaving:
                try:
                    client.remove_image(image_id)
                    removed = True
                except (DockerException, RequestException) as error:
                    # In use since, or somebody else gave it another name.
                    log.info("image %s stays: %s", image_id, explanation(error))
        return removed


def _read_accounts(client: APIClient, image_id: str, labels: Mapping[str, str]) -> dict[str, str]:
    """From a container that is never started."""
    nothing = ["/none"]
    made = client.create_container(
        image_id, command=nothing, entrypoint=nothing, labels=dict(labels)
    )["Id"]
    try:
        found = {path: _file_in(client, made, path) for path in (PASSWD, GROUP)}
    finally:
        client.remove_container(made, force=True, v=True)
    return {path: text for path, text in found.items() if text is not None}


def _file_in(client: APIClient, container: str, path: str) -> str | None:
    try:
        chunks, _ = client.get_archive(container, path)
        content = b"".join(chunks)
    except (NotFound, APIError):
        return None
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            if member.isfile() and member.size <= MAX_ACCOUNTS_BYTES:
                file = archive.extractfile(member)
                return file.read().decode(errors="surrogateescape") if file else None
    return None


def _usable(login: RegistryCredentials | None, reference: str, say: Say) -> dict[str, str] | None:
    """As the engine wants it; None: no login, so that the engine's own configuration counts."""
    registry = registry_of(reference)
    login = login_for(registry, login, say)
    if login is None:
        return None
    values = {
        "username": login.username,
        "password": login.password,
        "identitytoken": login.identity_token,
        "registrytoken": login.registry_token,
        "serveraddress": login.server or registry,
    }
    return {key: value for key, value in values.items() if value}


def explanation(error: Exception) -> str:
    """The engine's own words, without the address of its socket."""
    if isinstance(error, APIError):
        return str(error.explanation or error).strip()
    return f"the container engine does not answer: {error}"


class PullProgress:
    """From what an engine says of each layer, a line now and then. Pure."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._layers: dict[str, tuple[int, int]] = {}
        """(bytes so far, bytes in all); in all 0: not known."""
        self._done: set[str] = set()
        self._said_at: float | None = None

    def line(self, word: Mapping[str, Any], now: float) -> str:
        """What is worth saying after this word; mostly nothing."""
        self._hear(word)
        if self._said_at is None:
            self._said_at = now
        if now - self._said_at < LINE_EVERY_S or not self._layers:
            return ""
        self._said_at = now
        so_far = sum(current for current, _ in self._layers.values())
        total = sum(total for _, total in self._layers.values())
        amount = f", {_mib(so_far)} of {_mib(total)} MiB" if total else ""
        layers = f"{len(self._done)} of {len(self._layers)} layers"
        return f"Pulling image {self._name}: {layers}{amount}"

    def _hear(self, word: Mapping[str, Any]) -> None:
        layer, status = str(word.get("id") or ""), str(word.get("status") or "").lower()
        detail = word.get("progressDetail")
        if not layer or status.startswith("pulling from"):
            return
        current, total = self._layers.get(layer, (0, 0))
        if status.startswith("downloading") and isinstance(detail, Mapping):
            current, total = int(detail.get("current") or 0), int(detail.get("total") or 0)
        if status.startswith(DONE):
            self._done.add(layer)
            current = total
        self._layers[layer] = current, total


def _mib(number: int) -> str:
    return f"{number / 2**20:,.0f}"
