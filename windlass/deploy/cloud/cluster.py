"""A cluster in a cloud: made, changed and removed, from wherever the last command left it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from windlass.base.errors import InvalidState, NotFound, ProviderError
from windlass.base.formats.json_types import JsonMapping, JsonObject
from windlass.base.formats.plurals import counted
from windlass.deploy.cloud.machines import PAUSE_S, ClusterMachines, end_all
from windlass.deploy.cloud.plan import DeployPlan
from windlass.deploy.cloud.progress import TerraformProgress
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import (
    DeployPhase,
    Record,
    StateFolder,
    digest_of,
    folders,
    is_digest_of,
)
from windlass.deploy.cloud.terraform import (
    Say,
    Terraform,
    check_terraform,
    copy_modules,
    modules_of,
)

DATA = ("bucket", "database", "files", "disk", "secret")
"""Modules that hold what nobody can make again, and what they need stays with them."""
FIRST = ("module.master",)
"""Removed before the machines of pools: it would launch others in their place."""
THEN = ("module.bastion", "module.nat", "module.address", "module.roles", "module.accounts")
_PLAN = "plan.out"
_DELETE = {"delete_data": "true"}


Agree = Callable[[Sequence[tuple[str, str]]], bool]
"""Is shown actions with addresses of Terraform."""
EndOthers = Callable[[Sequence[str]], bool]
"""Is shown the addresses of masters with the cluster's name that are not in its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudCluster:
    folder: StateFolder
    say: Say
    records: SharedRecords | None = None
    """Of the bucket that the state is in; None: it is in the folder."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    modules: Path | None = None
    """Of Terraform; None: ours of this cloud."""
    pause_s: float = PAUSE_S
    """Between looks at machines that end."""

    def look(self, plan: DeployPlan) -> list[tuple[str, str]]:
        """What `up` would do; nothing is made, and no bucket for the state either."""
        check_terraform()
        with self.folder.locked():
            older = self._adopted()
            has_place = self.records is None or self.records.bucket.exists()
            terraform, file, _ = self._ready(plan, older, self.records if has_place else None)
            try:
                return terraform.plan(file).changes
            finally:
                file.unlink(missing_ok=True)

    def up(
        self,
        plan: DeployPlan,
        *,
        agree: Agree,
        before: Callable[[], None] | None = None,
    ) -> JsonObject | None:
        """Outputs of Terraform; None where `agree` said no. Goes on with what is half made.

        `agree` is shown what will be made, changed and removed. `before` runs after it, before anything changes.
        """
        check_terraform()
        with self.folder.locked():
            older = self._adopted()
            if self.records is not None:
                self.records.bucket.make()
            terraform, file, record = self._ready(plan, older, self.records)
            try:
                planned = self._planned(terraform, file)
                self._refuse_loss(planned.changes)
                if not agree(planned.changes):
                    return None
                if before is not None:
                    before()
                self._note(record)
                terraform.apply_plan(file, planned.total)
                outputs = terraform.outputs()
            except (ProviderError, KeyboardInterrupt) as error:
                raise self._half_made(error) from None
            finally:
                file.unlink(missing_ok=True)
            address = str(outputs.get("master_address") or "")
            version = record.secrets_version
            self._note(
                replace(record, phase=DeployPhase.UP, written_version=version, address=address)
            )
            return outputs

    def down(
        self, machines: ClusterMachines, *, delete_data: bool, end_others: EndOthers
    ) -> list[str]:
        """What is left: addresses of Terraform, or of the data only; and kept machines. Twice or half way: goes on.

        Machines carry the name of the cluster, not of its state: while a master of another state runs they may be its,
        and end only if `end_others` says so.
        """
        check_terraform()
        with self.folder.locked():
            try:
                return self._removed(machines, delete_data, end_others)
            except (ProviderError, KeyboardInterrupt) as error:
                raise ProviderError(f"{_said(error)}. Run down again to go on") from None

    def _removed(
        self, machines: ClusterMachines, delete_data: bool, end_others: EndOthers
    ) -> list[str]:
        record = self._adopted() or Record()
        delete_data = delete_data or (record.phase is DeployPhase.REMOVING and record.deletes_data)
        terraform = self._terraform(self.environment)
        terraform.init()
        there = terraform.resources()
        record = replace(record, phase=DeployPhase.REMOVING, deletes_data=delete_data)
        self._note(record)
        if _within(there, FIRST):
            self.say("Removing the master")
            terraform.destroy(FIRST)
        kept: Sequence[str] = ()
        if (others := machines.masters()) and not end_others(others):
            kept = machines.listed()
        else:
            # Also without a master in the state: it may have been lost half way.
            end_all(machines, self.say, pause_s=self.pause_s)
        if delete_data:
            protected = [f"module.{name}" for name in DATA if _within(there, [f"module.{name}"])]
            if protected:
                self.say("Lifting the protection of data")
                terraform.apply(protected, _DELETE)
            terraform.destroy(variables=_DELETE)
        elif present := [target for target in THEN if _within(there, [target])]:
            terraform.destroy(present)
        left = terraform.resources()
        if left or not delete_data:
            self._note(replace(record, phase=DeployPhase.DOWN, deletes_data=False, address=""))
        else:
            if self.records is not None:
                self.records.remove(self.folder.cluster_id)
            shutil.rmtree(self.folder.path)
        return [*left, *kept]

    def known(self) -> JsonMapping:
        """What it was made with. Raises NotFound."""
        if self.records is not None:
            with self.folder.locked():
                found = self._adopted()
            if found is not None:
                return self.folder.variables
            if not self.folder.has_state:
                shutil.rmtree(self.folder.path)
            place, others = f"bucket {self.records.bucket.name}", self.records.clusters()
        else:
            if self.folder.record is not None:
                return self.folder.variables
            root = self.folder.path.parents[1]
            place = str(self.folder.path.parent)
            others = [each.cluster_id for each in folders(self.folder.cloud, root)]
        there = f"there are {', '.join(others)}" if others else "there are none"
        raise NotFound("cluster", self.folder.cluster_id, f" in {place}; {there}")

    def _adopted(self) -> Record | None:
        """The record of the cluster; with a bucket what was written there last, from whichever machine."""
        ours = self.folder.record
        if ours is not None and self.folder.bucket != self._bucket:
            where = f"bucket {self.folder.bucket}" if self.folder.bucket else str(self.folder.path)
            raise InvalidState(
                f"The state of {self.folder.cluster_id} is in {where}: leave the bucket for the state as it is"
            )
        if self.records is None:
            return ours
        found = self.records.read(self.folder.cluster_id)
        if found is None:
            # It was written there before it was here: somebody else has removed it.
            return None
        record, variables = found
        if ours is not None and ours.secrets_version == record.secrets_version:
            record = replace(record, secrets_digests=ours.secrets_digests)
        self._place(self.records)
        self.folder.write_variables(variables)
        self.folder.note(record)
        return record

    def _ready(
        self, plan: DeployPlan, older: Record | None, records: SharedRecords | None
    ) -> tuple[Terraform, Path, Record]:
        """Terraform with everything that it reads, where its plan goes, and what is noted once that is agreed to."""
        self._place(records)
        record = self._next_record(plan, older)
        self.folder.write_variables({**plan.variables, "secrets_version": record.secrets_version})
        secrets = {"TF_VAR_secrets": _secrets_of(plan, older)}
        terraform = self._terraform({**plan.environment, **secrets})
        terraform.init()
        return terraform, self.folder.path / _PLAN, record

    def _place(self, records: SharedRecords | None) -> None:
        """Our modules, and where Terraform keeps its state."""
        copy_modules(self.modules or modules_of(self.folder.cloud), self.folder.path)
        backend = None
        if records is not None:
            backend = records.bucket.backend(records.folder(self.folder.cluster_id))
        self.folder.use_backend(backend)

    def _note(self, record: Record) -> None:
        """Before what it says is done: first where others see it."""
        if self.records is not None:
            self.records.write(self.folder.cluster_id, record, self.folder.variables)
        self.folder.note(record)

    @property
    def _bucket(self) -> str:
        return "" if self.records is None else self.records.bucket.name

    def _next_record(self, plan: DeployPlan, older: Record | None) -> Record:
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
            phase=DeployPhase.MAKING,
            secrets_version=older.secrets_version + (1 if other or torn else 0),
            secrets_digests={**digests, **_digests(other)},
            deletes_data=False,
        )

    def _planned(self, terraform: Terraform, file: Path) -> TerraformProgress:
        """What holds data is kept, though making it was interrupted: it is there, and protected."""
        planned = terraform.plan(file)
        kept = _within(planned.tainted, [f"module.{name}" for name in DATA])
        for address in kept:
            terraform.untaint(address)
        return terraform.plan(file) if kept else planned

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

    def _half_made(self, error: BaseException) -> ProviderError:
        try:
            made = len(self._terraform(self.environment).resources())
        except ProviderError:
            there = "What was made is not known now"
            return ProviderError(
                f"{_said(error)}. {there}: run up again to go on, or down to remove it"
            )
        there = f"{counted(made, 'thing')} {'is' if made == 1 else 'are'} there"
        again = f"{there}: run up again to go on, or down to remove it"
        return ProviderError(f"{_said(error)}. {again if made else 'Nothing was made'}")

    def _terraform(self, environment: Mapping[str, str]) -> Terraform:
        return Terraform(folder=self.folder.path, say=self.say, environment=environment)


def _said(error: BaseException) -> str:
    return error.message if isinstance(error, ProviderError) else "Interrupted"


def _digests(given: Mapping[str, str]) -> dict[str, str]:
    return {name: digest_of(text, os.urandom(16)) for name, text in given.items()}


def _secrets_of(plan: DeployPlan, older: Record | None) -> str:
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
