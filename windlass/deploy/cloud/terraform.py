"""Running Terraform in the folder of a cluster, and copying our files there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass.base.errors import InvalidState, ProviderError
from windlass.base.formats.json_types import JsonObject
from windlass.deploy.cloud.progress import TerraformProgress, failure

OLDEST = (1, 11)
_NO_STATE = "No state file was found"
Say = Callable[[str], None]
_BESIDE = Path(__file__).parent / "terraform"
"""In an installation; a checkout has them at its top."""
_CHECKOUT = Path(__file__).parents[3] / "terraform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    folder: Path
    say: Say
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Credentials, and `TF_VAR_secrets`: the environment is not kept, command lines are seen by all."""

    def init(self) -> None:
        self.say("Fetching Terraform's plug-ins")
        self._events("init", "-reconfigure")

    def plan(self, file: Path, targets: Sequence[str] = ()) -> TerraformProgress:
        """What `apply_plan` of that file would do."""
        self.say("Comparing with what is there")
        return self._events("plan", f"-out={file}", *_targets(targets))

    def apply_plan(self, file: Path, total: int) -> None:
        self._events("apply", "-auto-approve", str(file), total=total)

    def untaint(self, address: str) -> None:
        """Keep it, though making it was interrupted."""
        done = self._run("untaint", "-no-color", address)
        if done.returncode:
            raise ProviderError(failure([" ".join(done.stderr.split())[:600]], str(self.folder)))

    def apply(self, targets: Sequence[str], variables: Mapping[str, str]) -> None:
        given = [f"-var={name}={value}" for name, value in variables.items()]
        self._events("apply", "-auto-approve", *given, *_targets(targets))

    def destroy(
        self, targets: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        given = [f"-var={name}={value}" for name, value in (variables or {}).items()]
        self._events("apply", "-destroy", "-auto-approve", *given, *_targets(targets))

    def outputs(self) -> JsonObject:
        """Empty: nothing was made."""
        done = self._run("output", "-json", "-no-color")
        with suppress(ValueError):
            return {name: one.get("value") for name, one in json.loads(done.stdout or "{}").items()}
        raise ProviderError(failure([" ".join(done.stderr.split())[:600]], str(self.folder)))

    def resources(self) -> list[str]:
        """Addresses of what exists. Raises ProviderError where the state cannot be read: that is not an empty one."""
        done = self._run("state", "list", "-no-color")
        if done.returncode and _NO_STATE not in done.stderr:
            raise ProviderError(failure([" ".join(done.stderr.split())[-600:]], str(self.folder)))
        return done.stdout.split() if done.returncode == 0 else []

    def _events(self, *words: str, total: int = 0) -> TerraformProgress:
        progress = TerraformProgress(total=total)
        command = [_program(), words[0], "-json", "-input=false", *words[1:]]
        interrupted = False
        # A session of its own: Ctrl-C in a terminal reaches it once, from us.
        with subprocess.Popen(
            command, cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        ) as process, ended_like_interrupted():  # fmt: skip
            assert process.stdout is not None  # noqa: S101 - it was asked for
            while True:
                try:
                    for line in process.stdout:
                        for said in progress.lines(_event(line)):
                            self.say(said)
                    process.wait()
                    break
                except KeyboardInterrupt:
                    self.say("Interrupted: waiting until Terraform has ended what it began")
                    interrupted = True
                    process.send_signal(signal.SIGINT)
        if interrupted:
            raise ProviderError("Interrupted")
        if process.returncode < 0:
            progress.errors.append(f"Terraform was ended by signal {-process.returncode}")
        if process.returncode:
            raise ProviderError(failure(progress.errors, str(self.folder)))
        return progress

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_program(), *words], cwd=self.folder, env=self._environment(), capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "TF_IN_AUTOMATION": "1"}


def modules_of(cloud: str) -> Path:
    return (_BESIDE if _BESIDE.is_dir() else _CHECKOUT) / cloud


def copy_modules(modules: Path, folder: Path) -> None:
    """Replaces those of another release; state, variables and plug-ins stay."""
    for path in sorted(modules.glob("*.tf")):
        shutil.copyfile(path, folder / path.name)
    shutil.rmtree(folder / "modules", ignore_errors=True)
    if (modules / "modules").is_dir():
        shutil.copytree(
            modules / "modules", folder / "modules", ignore=shutil.ignore_patterns("tests", ".*")
        )


@contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP are KeyboardInterrupt: Terraform without a reader would die in the middle of a call."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def check_terraform() -> None:
    """Raises InvalidState, with the way out, where there is none or an old one."""
    done = subprocess.run(
        [_program(), "version", "-json"], capture_output=True, text=True, check=False
    )
    try:
        version = str(json.loads(done.stdout)["terraform_version"])
        found = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
    except (ValueError, KeyError):
        raise InvalidState(
            f"{_program()} does not say its version: install Terraform again"
        ) from None
    if found < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise InvalidState(
            f"Terraform {version} is too old: {needed} or newer keeps passwords out of its state; "
            "see https://developer.hashicorp.com/terraform/install"
        )


def _program() -> str:
    found = shutil.which("terraform")
    if found is None:
        raise InvalidState(
            "Terraform is not on PATH: install it, see https://developer.hashicorp.com/terraform/install"
        )
    return found


def _event(line: str) -> dict[str, Any]:
    """One without a type for what is no JSON: warnings of its own configuration."""
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return {}


def _targets(names: Sequence[str]) -> list[str]:
    return [f"-target={name}" for name in names]
