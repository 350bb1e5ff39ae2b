"""What the master writes into the logs of a root's tasks, once a step is committed."""

from __future__ import annotations

from typing import Any

from master.allocations.task_messages import TaskLogWriter, lines
from master.roots.root import Root, Transition


class TaskMessages:
    """Of one root: subscribe `committed`."""

    def __init__(self, log: TaskLogWriter, root: Root[Any, Any, Any]) -> None:
        self._log = log
        self._root = root

    def committed(self, transition: Transition[Any, Any]) -> None:
        for before, allocation in self._root.changed_allocations(transition):
            name = self._root.task_name(allocation)
            for level, line in lines(name, before, allocation):
                self._log.say(allocation.task_id, allocation.id, line, level=level)
