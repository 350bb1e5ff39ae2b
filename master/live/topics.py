"""What pages can ask to be told of, and which right each needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import NamedTuple

from master.auth.actions import ANYWHERE, Action, Target
from master.auth.principal import Principal
from windlass.base.errors import InvalidArgument

MAX_ID = 2**31 - 1
"""Of a row."""
MAX_TEXT = 300
"""Characters of a topic."""
OWN_TOPIC = "me"


class Names(StrEnum):
    """How a topic names the one thing that it is about."""

    NOTHING = auto()
    """It is about a list, or about what there is once."""
    NUMBER = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class TopicKind:
    action: Action
    """Whoever may do this to what was changed is told."""
    about: str
    """For people."""
    names: Names = Names.NOTHING


def _one(action: Action, about: str, names: Names = Names.NUMBER) -> TopicKind:
    return TopicKind(action, about, names)


TOPICS: Mapping[str, TopicKind] = {
    "experiments": TopicKind(Action.VIEW_EXPERIMENTS, "any experiment"),
    "experiment": _one(Action.VIEW_EXPERIMENTS, "an experiment: its state, its trials, its search"),
    "trials": _one(Action.VIEW_ARTIFACTS, "trials of an experiment, with metrics and checkpoints"),
    "trial": _one(Action.VIEW_ARTIFACTS, "a trial, its metrics, checkpoints and runs"),
    "tasks": TopicKind(Action.VIEW_INTERACTIVE, "any command, notebook, shell, ..."),
    "task": _one(Action.VIEW_ARTIFACTS, "a task: of a trial or an interactive one", Names.TEXT),
    "queue": TopicKind(Action.VIEW_JOBS, "what waits, why, and what runs"),
    "cluster": TopicKind(Action.VIEW_CLUSTER, "agents, slots, pools"),
    "fleet": TopicKind(Action.VIEW_CLUSTER, "machines, offers, plans, batch jobs"),
    "costs": TopicKind(Action.VIEW_CLUSTER, "costs that were booked"),
    "workspaces": TopicKind(Action.VIEW_WORKSPACES, "workspaces and projects"),
    "models": TopicKind(Action.VIEW_MODELS, "models and their versions"),
    "templates": TopicKind(Action.VIEW_TEMPLATES, "templates"),
    "policies": TopicKind(Action.VIEW_WORKSPACE_POLICIES, "policies for configurations"),
    "webhooks": TopicKind(Action.VIEW_WEBHOOKS, "webhooks and their deliveries"),
    "users": TopicKind(Action.VIEW_USERS, "users"),
    "groups": TopicKind(Action.VIEW_ALL_GROUPS, "groups, roles and who holds them"),
    "logins": TopicKind(Action.VIEW_TOKENS, "sessions and tokens of all users"),
    "user": _one(Action.MANAGE_SESSIONS, "sessions, tokens and settings of a user"),
    OWN_TOPIC: TopicKind(Action.USE_SESSION, "the same of the caller, and their rights"),
    "master": TopicKind(Action.VIEW_CLUSTER, "what changes only with a restart of the master"),
}


class Topic(NamedTuple):
    name: str
    id: int | str | None = None

    def __str__(self) -> str:
        return self.name if self.id is None else f"{self.name} {self.id}"

    @property
    def kind(self) -> TopicKind:
        return TOPICS[self.name]

    @property
    def target(self) -> Target | None:
        """What the right is asked for at the beginning; None: it must be looked up."""
        if self.name in ("user", OWN_TOPIC):
            return Target(kind="user", id=self.id or 0, owner_id=int(self.id or 0))
        return ANYWHERE if self.id is None else None


def action_for(topic: Topic, target: Target) -> Action:
    """What whoever is told must be allowed to do to what was changed."""
    if topic.name == "task" and target.experiment_id is None:
        return Action.VIEW_INTERACTIVE
    if topic.name == "policies" and target.workspace_id is None and target is not ANYWHERE:
        return Action.VIEW_GLOBAL_POLICIES
    return topic.kind.action


def parse_topic(text: str, by: Principal) -> Topic:
    """`experiments`, `experiment 7`. Raises InvalidArgument."""
    name, _, id_ = text.partition(" ")
    kind = TOPICS.get(name)
    if kind is None:
        raise InvalidArgument(
            f"topic: must begin with one of {', '.join(TOPICS)}, but is {name[:80]!r}"
        )
    if name == OWN_TOPIC and not id_:
        return Topic(OWN_TOPIC, by.user_id)
    if kind.names is Names.NOTHING:
        if id_:
            raise InvalidArgument(f"topic: {name} takes no id, but has {id_[:80]!r}")
        return Topic(name)
    if not id_ or "\0" in id_:
        raise InvalidArgument(f"topic: {name} needs the id of one, as in '{name} 7'")
    if kind.names is Names.TEXT:
        return Topic(name, id_)
    if not id_.isascii() or not id_.isdigit() or int(id_) > MAX_ID:
        raise InvalidArgument(f"topic: {name} needs a number up to {MAX_ID}, but has {id_[:80]!r}")
    return Topic(name, int(id_))
