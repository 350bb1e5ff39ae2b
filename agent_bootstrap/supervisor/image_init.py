"""The process right above a task in an image: task_init.py, with the image's own Python.

usage: python3 -I -S image_init.py        (standard library only; Python 3.10 or newer)

It reads `/opt/windlass/task/task.json` and puts the task's variables around the image's. It is process 1 of the
container, unless the image's entrypoint stays above it. Every Python 3 understands this file.
"""

import os
import sys

NEEDED = (3, 10)
TASK = "/opt/windlass/task/task.json"
TOLD_FD = 3


def refuse(message: str) -> None:
    os.write(TOLD_FD, '{{"failure": "task_error", "message": "{}"}}\n'.format(message).encode())  # noqa: UP032
    os._exit(125)


if __name__ == "__main__":
    if sys.version_info < NEEDED:
        found = ".".join(map(str, sys.version_info[:2]))
        refuse("the image has Python " + found + ": tasks need 3.10 or newer")
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from agent_bootstrap.supervisor.image_task import main

    os._exit(main(TASK))
