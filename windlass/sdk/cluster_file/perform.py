"""Steps, done by the REST API of the master."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass.base.errors import Conflict, InvalidArgument
from windlass.base.password_rules import missing_in_password
from windlass.sdk.cluster_file.current import WORKLOADS, Ids, agent_user_on_the_wire
from windlass.sdk.cluster_file.model import Password
from windlass.sdk.cluster_file.state import Action, Kind, Step
from windlass.sdk.wire import Json, hash_password

if TYPE_CHECKING:
    from windlass.sdk.client import Client

_USER_KEYS = {
    "display_name": "displayName",
    "admin": "admin",
    "active": "active",
    "remote": "remote",
}
_POOL_KEYS = {
    "default_compute_pool": "defaultComputePool",
    "default_aux_pool": "defaultAuxPool",
}


class Passwords:
    """Where a file says that they are."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment

    def read(self, password: Password) -> str:
        """Raises InvalidArgument, which does not have the password."""
        text = self._read(password)
        if missing := missing_in_password(text):
            raise InvalidArgument(f"the password of {password.source} needs {', '.join(missing)}")
        return text

    def _read(self, password: Password) -> str:
        if password.env is not None:
            if (text := self._environment.get(password.env)) is None:
                raise InvalidArgument(f"{password.source} is not set: set it, or give a file")
            return text
        path = self._folder / str(password.file)
        try:
            with path.open(encoding="utf-8") as lines:
                return lines.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InvalidArgument(f"cannot read {path}: not a text file") from None
        except OSError as error:
            raise InvalidArgument(
                f"cannot read {path}: {error.strerror}; write the password there, or give a variable"
            ) from None


class Performer:
    def __init__(self, client: Client, ids: Ids, passwords: Passwords) -> None:
        self._client = client
        self._ids = ids
        self._passwords = passwords

    def perform(self, step: Step) -> list[str]:
        """What the master has to say about it. What is as the step says already is no error."""
        by_kind: dict[Kind, Callable[[Step], list[str] | None]] = {
            Kind.USER: self._user,
            Kind.GROUP: self._group,
            Kind.WORKSPACE: self._workspace,
            Kind.PROJECT: self._project,
            Kind.ROLE: self._role,
            Kind.POOL: self._pool,
            Kind.TEMPLATE: self._template,
            Kind.POLICY: self._policy,
        }
        return by_kind[step.kind](step) or []

    def _user(self, step: Step) -> None:
        new = step.new()
        fields: Json = {wire: new[key] for key, wire in _USER_KEYS.items() if key in new}
        if "agent_user" in new:
            who = new["agent_user"]
            fields["agentUserGroup"] = agent_user_on_the_wire(who) if who is not None else {}
        password = self._passwords.read(new["password"]) if "password" in new else None
        if step.action is Action.CREATE:
            made = self._client.create_user(step.name, password=password, **fields)
            self._ids.users[step.name] = int(made["id"])
            return
        if password is not None:
            fields |= {"password": hash_password(password), "isHashed": True}
        self._client.user_calls().edit(self._ids.users[step.name], fields)

    def _group(self, step: Step) -> None:
        calls = self._client.groups()
        new = set(step.new().get("members", ()))
        if step.action is Action.CREATE:
            made = calls.create(step.name, self._users(new))
            self._ids.groups[step.name] = int(made["groupId"])
            return
        old = {name for change in step.changes for name in change.old}
        calls.edit(
            self._ids.groups[step.name],
            add=self._users(new - old),
            remove=self._users(old - new),
        )

    def _users(self, names: set[str]) -> list[int]:
        return [self._ids.users[name] for name in sorted(names)]

    def _workspace(self, step: Step) -> None:
        calls = self._client.workspace_calls()
        new = step.new()
        fields: Json = {wire: new[key] for key, wire in _POOL_KEYS.items() if key in new}
        if "checkpoint_storage" in new:
            fields["checkpointStorageConfig"] = new["checkpoint_storage"] or {}
        if "agent_user" in new:
            who = new["agent_user"]
            nobody = dict.fromkeys(("agentUser", "agentUid", "agentGroup", "agentGid"))
            fields["agentUserGroup"] = agent_user_on_the_wire(who) if who is not None else nobody
        if step.action is Action.CREATE:
            self._ids.workspaces[step.name] = int(calls.create(step.name, **fields)["id"])
        else:
            calls.edit(self._ids.workspaces[step.name], fields)

    def _project(self, step: Step) -> None:
        where, calls = str(step.workspace), self._client.projects()
        new: dict[str, Any] = step.new()
        if step.action is Action.CREATE:
            made = calls.create(self._ids.workspaces[where], step.name, **new)
            self._ids.projects[where, step.name] = int(made["id"])
        else:
            calls.edit(self._ids.projects[where, step.name], new)

    def _role(self, step: Step) -> None:
        calls, holder = self._client.roles(), step.holder
        if holder is None:
            raise ValueError(step)
        ids = self._ids.users if holder.kind == "user" else self._ids.groups
        who = {f"{holder.kind}_id": ids[holder.name]}
        where = self._ids.workspaces[step.workspace] if step.workspace is not None else None
        if step.action is Action.CREATE:
            with suppress(Conflict):  # who creates a workspace has a role in it
                calls.assign(self._ids.roles[step.name], **who, workspace_id=where)
        else:
            calls.unassign(self._ids.roles[step.name], **who, workspace_id=where)

    def _pool(self, step: Step) -> None:
        self._client.pool_bindings().replace(step.name, step.new()["workspaces"])

    def _template(self, step: Step) -> list[str]:
        calls, config = self._client.templates(), step.new()["config"]
        if step.action is Action.CREATE:
            where = self._ids.workspaces[str(step.workspace)]
            answer = calls.create(step.name, config, workspace_id=where)
        else:
            answer = calls.set_config(step.name, config)
        return list(map(str, answer.get("configWarnings") or ()))

    def _policy(self, step: Step) -> list[str]:
        calls, policy = self._client.config_policies(), step.new()["policy"]
        where = self._ids.workspaces[step.workspace] if step.workspace is not None else None
        workload = next(wire for name, wire in WORKLOADS.items() if name == step.name)
        if policy is None:
            calls.delete(workload, where)
            return []
        affected = calls.set(workload, json.dumps(policy), where).get("affected") or ()
        return [f"stays as it is: {one}" for one in affected]
