"""Where the things are that topics are about: what rules ask of them, by few queries for many."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from master.auth.actions import Target
from master.auth.ownership import OwnershipQueries, TaskPlace
from master.live.topics import Topic
from master.store.store import Store


class Places:
    """What is not there is left out."""

    def __init__(self, store: Store) -> None:
        self._owners = OwnershipQueries(store)

    async def experiments(self, ids: Collection[int]) -> Mapping[int, Target]:
        return await self._owners.known_experiments(sorted(ids))

    async def trials(self, ids: Collection[int]) -> Mapping[int, Target]:
        return await self._owners.known_trials(sorted(ids))

    async def tasks(self, ids: Collection[str]) -> Mapping[str, TaskPlace]:
        return await self._owners.known_tasks(sorted(ids))

    async def find(self, topics: Collection[Topic]) -> Mapping[Topic, Target]:
        """Of topics that are about one experiment, trial or task."""
        experiments = await self.experiments(_numbers(topics, "experiment", "trials"))
        trials = await self.trials(_numbers(topics, "trial"))
        tasks = await self.tasks({str(topic.id) for topic in topics if topic.name == "task"})
        found: dict[Topic, Target | None] = {}
        for topic in topics:
            match topic.name:
                case "experiment" | "trials":
                    found[topic] = experiments.get(int(topic.id or 0))
                case "trial":
                    found[topic] = trials.get(int(topic.id or 0))
                case "task" if (place := tasks.get(str(topic.id))) is not None:
                    found[topic] = place.target
        return {topic: target for topic, target in found.items() if target is not None}


def _numbers(topics: Collection[Topic], *names: str) -> set[int]:
    return {int(topic.id or 0) for topic in topics if topic.name in names}
