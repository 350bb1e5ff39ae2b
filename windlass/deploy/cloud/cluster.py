"""A cluster in a cloud: made, changed and removed, from wherever the last command left it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.base.errors import InvalidState, NotFound, ProviderError
from windlass.base.json_types import JsonMapping, JsonObject
from windlass.deploy.cloud.machines import PAUSE_S, Machines, end_all
from windlass.deploy.cloud.plan import Plan
from windlass.deploy.cloud.state_folder import (
    Phase,
    Record,
    StateFolder,
    digest_of,
    folders,
    is_digest_of,
)
from windlass.deploy.cloud.terraform import Say, Terraform, check_terraform
from windlass.deploy.cloud.terraform_files import copy_modules, modules_of

DATA = ("bucket", "database", "files", "disk", "secret")
"""Modules that hold what nobody can make again, and what they need stays with them."""
FIRST = ("module.master",)
"""Removed before the machines of pools: it would launch others in their place."""
THEN = ("module.bastion", "module.nat", "module.address", "module.roles", "module.accounts")
_PLAN = "plan.out"
_DELETE = {"delete_data": "true"}


Agree = Callable[[Sequence[tuple[str, str]]], bool]
"""Is shown actions with addresses of Terraform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudCluster:
    folder: StateFolder
    say: Say
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    modules: Path | None = None
    """Of Terraform; None: ours of this cloud."""
    pause_s: float = PAUSE_S
    """Between looks at machines that end."""

    def up(
        self,
        plan: Plan,
        *,
        agree: Agree,
        before: Callable[[], None] | None = None,
    ) -> JsonObject | None:
        """Outputs of Terraform; None where `agree` said no. Goes on with what is half made.

        `agree` is shown what will be made, changed and removed. `before` runs after it, before anything changes.
        """
        check_terraform()
        with self.folder.locked():
            older = self.folder.record
            self._prepare(plan)
            record = self._next_record(plan, older)
            secrets = {"TF_VAR_secrets": _secrets_of(plan, older)}
            terraform = self._terraform({**plan.environment, **secrets})
            self.folder.write_variables(
                {**plan.variables, "secrets_version": record.secrets_version}
            )
            terraform.init()
            file = self.folder.path / _PLAN
            try:
                planned = terraform.plan(file)
                self._refuse_loss(planned.changes)
                if not agree(planned.changes):
                    return None
                if before is not None:
                    before()
                self.folder.note(record)
                terraform.apply_plan(file, planned.total)
            except ProviderError as error:
                raise self._half_made(error) from None
            finally:
                file.unlink(missing_ok=True)
            outputs = terraform.outputs()
            self.folder.change(
                phase=Phase.UP,
                written_version=record.secrets_version,
                address=str(outputs.get("master_address") or ""),
            )
            return outputs

    def down(self, machines: Machines, *, delete_data: bool) -> list[str]:
        """What is left: addresses of Terraform, or of the data only. Twice or half way: goes on."""
        check_terraform()
        with self.folder.locked():
            record = self.folder.record or Record()
            delete_data = delete_data or (record.phase is Phase.REMOVING and record.deletes_data)
            terraform = self._terraform(self.environment)
            terraform.init()
            there = terraform.resources()
            self.folder.change(phase=Phase.REMOVING, deletes_data=delete_data)
            if _within(there, FIRST):
                self.say("Removing the master")
                terraform.destroy(FIRST)
            # Also without a master in the state: it may have been lost half way.
            end_all(machines, self.say, pause_s=self.pause_s)
            if delete_data:
                protected = [
                    f"module.{name}" for name in DATA if _within(there, [f"module.{name}"])
                ]
                if protected:
                    self.say("Lifting the protection of data")
                    terraform.apply(protected, _DELETE)
                terraform.destroy(variables=_DELETE)
            elif present := [target for target in THEN if _within(there, [target])]:
                terraform.destroy(present)
            left = terraform.resources()
            if delete_data and not left:
                shutil.rmtree(self.folder.path)
            else:
                self.folder.change(phase=Phase.DOWN, deletes_data=False, address="")
            return left

    def known(self, bucket: str, *, region: str, profile: str) -> JsonMapping:
        """What it was made with. Raises NotFound. With a bucket: of the state there."""
        if self.folder.record is None and not bucket:
            others = [
                each.cluster_id for each in folders(self.folder.cloud, self.folder.path.parents[1])
            ]
            there = f"; there are {', '.join(others)}" if others else "; there are none"
            raise NotFound(
                "cluster", self.folder.cluster_id, f" in {self.folder.path.parent}{there}"
            )
        if bucket and self.folder.record is None:
            with self.folder.locked():
                copy_modules(self.modules or modules_of(self.folder.cloud), self.folder.path)
                self.folder.use_bucket(bucket, region=region, profile=profile)
                terraform = self._terraform(self.environment)
                terraform.init()
                inputs = terraform.outputs().get("inputs")
                if not isinstance(inputs, dict):
                    shutil.rmtree(self.folder.path)
                    raise NotFound("cluster", self.folder.cluster_id, f" in bucket {bucket}")
                self.folder.write_variables(inputs)
                version = int(inputs.get("secrets_version", 1))
                self.folder.note(
                    Record(phase=Phase.UP, secrets_version=version, written_version=version)
                )
        return self.folder.variables

    def _prepare(self, plan: Plan) -> None:
        copy_modules(self.modules or modules_of(self.folder.cloud), self.folder.path)
        variables = plan.variables
        self.folder.use_bucket(
            plan.state_bucket,
            region=str(variables["region"]),
            profile=str(variables.get("profile", "")),
        )

    def _next_record(self, plan: Plan, older: Record | None) -> Record:
        """The secret gets a new version if other ones are given, or if not everything got the last one."""
        if older is None:
            return Record(secrets_digests=_digests(plan.given_secrets))
        digests = older.secrets_digests
        other = {
            name: text
            for name, text in plan.given_secrets.items()
            if not is_digest_of(digests.get(name, ""), text)
        }
        torn = older.written_version != older.secrets_version or older.deletes_data
        return replace(
            older,
            phase=Phase.MAKING,
            secrets_version=older.secrets_version + (1 if other or torn else 0),
            secrets_digests={**digests, **_digests(other)},
            deletes_data=False,
        )

    def _refuse_loss(self, changes: Sequence[tuple[str, str]]) -> None:
        lost = [
            address
            for action, address in changes
            if action in ("delete", "replace") and _within([address], [f"module.{n}" for n in DATA])
        ]
        if lost:
            raise InvalidState(
                f"These options would delete data: {', '.join(lost)}. Keep the options of {self.folder.cluster_id}, or "
                "make another cluster; down --delete-data deletes data"
            )

    def _half_made(self, error: ProviderError) -> ProviderError:
        made = len(self._terraform(self.environment).resources())
        again = "run up again to go on, or down to remove it" if made else "nothing was made"
        return ProviderError(
            f"{error.message}. {f'{made} things are there: ' if made else ''}{again}"
        )

    def _terraform(self, environment: Mapping[str, str]) -> Terraform:
        return Terraform(folder=self.folder.path, say=self.say, environment=environment)


def _digests(given: Mapping[str, str]) -> dict[str, str]:
    return {name: digest_of(text, os.urandom(16)) for name, text in given.items()}


def _secrets_of(plan: Plan, older: Record | None) -> str:
    """A cluster that has started has its first password: another one in its secret would mislead."""
    secrets = dict(plan.secrets)
    started = older is not None and older.written_version > 0
    if started and "initial_user_password" not in plan.given_secrets:
        secrets["config"] = {k: v for k, v in secrets["config"].items() if k != "security"}
    return json.dumps(secrets)


def _within(addresses: Sequence[str], targets: Sequence[str]) -> list[str]:
    return [
        address
        for address in addresses
        if any(address == t or address.startswith((f"{t}.", f"{t}[")) for t in targets)
    ]
