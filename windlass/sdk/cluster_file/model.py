"""The file that `windlass admin apply` reads. What is not written in it is not touched."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator, model_validator

Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], Strict(False)]
"""A list of YAML, too."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these keys that are written."""
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}


class Password(Section):
    """Where a password is; the file itself never has one."""

    env: Name | None = None
    """An environment variable of `windlass admin apply`."""
    file: Name | None = None
    """Its first line; relative to the folder of this file."""

    @model_validator(mode="after")
    def _one(self) -> Password:
        if (self.env is None) == (self.file is None):
            raise ValueError("give either env or file")
        return self

    @property
    def source(self) -> str:
        return f"the variable {self.env}" if self.env is not None else f"the file {self.file}"


class AgentUser(Section):
    """As whom tasks run on the agents' machines."""

    user: Name
    uid: Annotated[int, Field(ge=0)]
    group: Name
    gid: Annotated[int, Field(ge=0)]


class User(Section):
    display_name: str = ""
    admin: bool = False
    active: bool = True
    remote: bool = False
    """Without a password: logs in with access tokens alone."""
    password: Password | None = None
    """Set when the user is created."""
    agent_user: AgentUser | None = None

    @model_validator(mode="after")
    def _no_password_of_a_remote_one(self) -> User:
        if self.remote and self.password is not None:
            raise ValueError("a remote user has no password: remove `password`, or `remote`")
        return self


class Group(Section):
    members: Names = ()
    """All of them."""


class Holders(Section):
    """All who hold a role."""

    users: Names = ()
    groups: Names = ()


class Project(Section):
    description: str = ""
    key: Annotated[str, Field(pattern=r"^[A-Z0-9]{1,5}$")] | None = None


class Policies(Section):
    """Each whole; null: there is none."""

    experiment: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None


class Workspace(Section):
    agent_user: AgentUser | None = None
    default_compute_pool: str = ""
    """Of work that names none; empty, as in the next: that of the cluster."""
    default_aux_pool: str = ""
    checkpoint_storage: dict[str, Any] | None = None
    """Whole; null: that of the cluster."""
    roles: dict[Name, Holders] = Field(default_factory=dict)
    """All roles that are held in it."""
    projects: dict[Name, Project] = Field(default_factory=dict)
    config_policies: Policies = Field(default_factory=Policies)

    @field_validator("checkpoint_storage")
    @classmethod
    def _given_keys(cls, storage: dict[str, Any] | None) -> dict[str, Any] | None:
        """As the master keeps it: null is not given."""
        return {key: one for key, one in (storage or {}).items() if one is not None} or None


class Template(Section):
    workspace: Name | None = None
    """Of a new one; none: the first workspace."""
    config: dict[str, Any]
    """All of it."""


class Pool(Section):
    workspaces: Names
    """All that it is bound to; none: it is everybody's."""


class ClusterFile(Section):
    users: dict[Name, User] = Field(default_factory=dict)
    groups: dict[Name, Group] = Field(default_factory=dict)
    roles: dict[Name, Holders] = Field(default_factory=dict)
    """Roles in the whole cluster. One that is not named stays as it is."""
    workspaces: dict[Name, Workspace] = Field(default_factory=dict)
    resource_pools: dict[Name, Pool] = Field(default_factory=dict)
    config_policies: Policies = Field(default_factory=Policies)
    """Of the cluster."""
    templates: dict[Name, Template] = Field(default_factory=dict)
