"""From what a commit concerns to the topics whose followers are told of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain

from master.auth.actions import CLUSTER, Target
from master.auth.ownership import TaskPlace
from master.live.places import Places
from master.live.topics import OWN_TOPIC, Topic
from master.store.touches import Subject, Touch

OF_THE_CLUSTER: Mapping[Subject, Sequence[str]] = {
    Subject.USERS: ("users",),
    Subject.GROUPS: ("groups",),
    Subject.LOGINS: ("logins",),
    Subject.QUEUE: ("queue", "cluster"),
    Subject.CLUSTER: ("cluster",),
    Subject.FLEET: ("fleet", "queue", "cluster"),
    Subject.COSTS: ("costs",),
}
OF_WORKSPACES: Mapping[Subject, str] = {
    Subject.EXPERIMENTS_OF: "experiments",
    Subject.TASKS_OF: "tasks",
    Subject.WORKSPACES: "workspaces",
    Subject.MODELS: "models",
    Subject.TEMPLATES: "templates",
    Subject.POLICIES: "policies",
    Subject.WEBHOOKS: "webhooks",
}
_OF_EXPERIMENTS = frozenset({"experiments", "experiment", "trials"})
_OF_TRIALS = frozenset({*_OF_EXPERIMENTS, "trial"})
_OF_TASKS = frozenset({*_OF_TRIALS, "task", "tasks"})


@dataclass(frozen=True, slots=True)
class News:
    topics: Sequence[Topic]
    target: Target | None
    """What was changed, as rules ask of it; None: it is not there any more."""


class NewsReader:
    def __init__(self, places: Places) -> None:
        self._places = places

    async def read(self, touches: Collection[Touch], followed: Set[str]) -> Iterator[News]:
        """`followed`: names of topics. What only others would be told is not looked up."""
        parts: list[Iterator[News]] = [chain.from_iterable(map(_by_itself, touches))]
        ids: dict[Subject, set[int | str]] = {}
        for touch in touches:
            if touch.key is not None:
                ids.setdefault(touch.subject, set()).add(touch.key)
        if not followed.isdisjoint(_OF_EXPERIMENTS):
            parts.append(await self._experiments(ids.get(Subject.EXPERIMENT, ())))
        if not followed.isdisjoint(_OF_TRIALS):
            parts.append(await self._trials(ids.get(Subject.TRIAL, ())))
        if not followed.isdisjoint(_OF_TASKS):
            parts.append(await self._tasks(ids.get(Subject.TASK, ())))
        return chain.from_iterable(parts)

    async def _experiments(self, touched: Iterable[int | str]) -> Iterator[News]:
        ids = _numbers(touched)
        found = await self._places.experiments(ids)
        return (News(_topics_of_experiment(id_), found.get(id_)) for id_ in ids)

    async def _trials(self, touched: Iterable[int | str]) -> Iterator[News]:
        ids = _numbers(touched)
        found = await self._places.trials(ids)
        return (one for id_ in ids for one in _of_trial(id_, found.get(id_)))

    async def _tasks(self, touched: Iterable[int | str]) -> Iterator[News]:
        ids = [str(id_) for id_ in touched]
        found = await self._places.tasks(ids)
        return (one for id_ in ids for one in _of_task(id_, found.get(id_)))


def each_place_once(news: Iterable[News]) -> Iterator[News]:
    """Of each topic one for each place and owner: thousands of runs of one search are one to those who follow it."""
    told: set[tuple[Topic, object]] = set()
    for one in news:
        place = _asked_of(one.target)
        topics = [topic for topic in one.topics if (topic, place) not in told]
        told.update((topic, place) for topic in topics)
        if topics:
            yield News(topics, one.target)


def _asked_of(target: Target | None) -> object:
    """What rules about topics ask of it: who may see a run of an experiment may see its other ones."""
    if target is None:
        return None
    of_experiment = target.experiment_id is not None
    return target.kind, target.owner_id, target.workspace_id, target.shows, of_experiment


def _topics_of_experiment(id_: int) -> list[Topic]:
    return [Topic("experiments"), Topic("experiment", id_), Topic("trials", id_)]


def _of_trial(id_: int, target: Target | None) -> Iterator[News]:
    yield News([Topic("trial", id_)], target)
    if target is not None and (of := target.experiment_id) is not None:
        # Its experiment may be seen by some who may not see trials.
        yield News(
            _topics_of_experiment(of), replace(target, kind="experiment", id=of, task_id=None)
        )


def _of_task(id_: str, place: TaskPlace | None) -> Iterator[News]:
    target, trial_id = place or (None, None)
    is_interactive = target is not None and target.experiment_id is None
    yield News([Topic("task", id_), *([Topic("tasks")] if is_interactive else [])], target)
    if trial_id is not None:
        yield from _of_trial(trial_id, target)


def _by_itself(touch: Touch) -> Iterator[News]:
    """Of a touch that says where it is."""
    if names := OF_THE_CLUSTER.get(touch.subject):
        yield News([Topic(name) for name in names], CLUSTER)
    elif name := OF_WORKSPACES.get(touch.subject):
        workspace = _number(touch.key)
        where = Target(kind="workspace", id=workspace, workspace_id=workspace)
        yield News([Topic(name)], CLUSTER if touch.key is None else where)
    elif touch.subject is Subject.USER:
        user = _number(touch.key)
        topics = [Topic("user", user), Topic(OWN_TOPIC, user)]
        yield News(topics, Target(kind="user", id=user, owner_id=user))


def _numbers(keys: Iterable[int | str]) -> list[int]:
    return [_number(key) for key in keys]


def _number(key: int | str | None) -> int:
    return key if isinstance(key, int) else 0
