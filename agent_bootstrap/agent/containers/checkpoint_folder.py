"""The folder in which a trial keeps checkpoints and TensorBoard files, made so that tasks of many users can share it.

    <folder>/                                     anybody may add, nobody may remove what is another's (1777, as /tmp)
        <checkpoint id>/                          of whoever wrote it
        <cluster id>/tensorboard/experiment/      the agent's
            <experiment id>/trial/<trial id>/     of whom the trial runs as

Only a root agent has anything to do here. It never follows a link: tasks write to the folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from agent_bootstrap.agent.containers.mounts import run_as, user_error
from agent_bootstrap.agent.identity import shown
from agent_bootstrap.bind_rules import HostPaths, problem_of, resolved
from agent_bootstrap.container_options import SHARED_MODE, CheckpointFolder, OsUser

SQUASHED_UID = 65534
"""Whom such a file system takes root for."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare_checkpoints(
    folder: CheckpointFolder, rules: HostPaths, *, cluster_id: str, agent: OsUser, task: OsUser
) -> None:
    """Before mounts are checked: what is missing is made. `rules` are the master's.

    The permissions of folders that exist are their owner's business: one that cannot be written is refused with what
    would help. Raises StartRefused, OSError. Blocks.
    """
    if problem := problem_of(folder.host_path, rules, as_root=task.uid == 0):
        raise user_error(f"checkpoint_storage: host_path {folder.host_path} {problem}")
    root = resolved(folder.host_path)
    below = [part for part in PurePosixPath(folder.below).parts if part != "/"]
    path = Path(root, *below)
    if not folder.make and not path.is_dir():
        raise user_error(f"checkpoint storage {path} does not exist on this machine")
    if agent.uid != 0:
        _make_own(path)
    elif root in {resolved(own) for own in rules.cluster}:
        _make_shared(root, below)
        _require_writable(path, task)
        with suppress(OSError):  # on a network file system that trusts no root the task makes them
            _make_tensorboard(root, below, cluster_id, folder, agent, task)
    else:  # named by a user: made as far as that user could make it
        run_as(task, ["mkdir", "-p", "--", str(path)])
        _require_writable(path, task)


def _make_own(path: Path) -> None:
    """By an agent whose tasks run as its own user."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise user_error(f"checkpoint storage {path} cannot be made: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise user_error(
            f"checkpoint storage {path} is not writable for the agent's user ({os.geteuid()}): make it so, or name "
            "another folder in checkpoint_storage"
        )


def _make_shared(root: str, below: Sequence[str]) -> None:
    made = not Path(root).exists()
    if made:
        Path(root).mkdir(parents=True)
        if not below:
            Path(root).chmod(SHARED_MODE)
    with _opened(root) as (top, held):
        for number, name in enumerate(below, start=1):
            top = _enter(top, name, held, SHARED_MODE if number == len(below) else 0o755)


def _require_writable(path: Path, task: OsUser) -> None:
    if not path.is_dir():
        raise user_error(f"checkpoint storage {path} is no folder that {shown(task)} could make")
    if run_as(task, ["sh", "-c", "test -w . && test -x ."], cwd=str(path)).returncode != 0:
        raise user_error(
            f"checkpoint storage {path} is not writable for {shown(task)}, whom the task runs as: make it so "
            "(chmod 1777 does, for everybody), or link the user with an account that may write there "
            "(det user link-with-agent-user)"
        )


def _make_tensorboard(
    root: str,
    below: Sequence[str],
    cluster_id: str,
    folder: CheckpointFolder,
    agent: OsUser,
    task: OsUser,
) -> None:
    with _opened(root) as (top, held):
        for name in below:
            top = _enter(top, name, held, None)
        for name in (cluster_id, "tensorboard", "experiment"):
            top = _enter(top, name, held, 0o755)
            _require_own(top, Path(root, *below, cluster_id), agent)
        for name in (str(folder.experiment_id), "trial", str(folder.trial_id)):
            top = _enter(top, name, held, 0o755)
            # Earlier runs may have been somebody else: only the folder changes hands, files stay as they are.
            os.fchown(top, task.uid, task.gid)


def _require_own(descriptor: int, path: Path, agent: OsUser) -> None:
    """Anybody may add to the storage: whoever made this first could change what others keep in it."""
    owner = os.fstat(descriptor).st_uid
    if owner == SQUASHED_UID:
        raise OSError(errno.EPERM, "made on a network file system that trusts no root", str(path))
    if owner not in (0, agent.uid):
        raise user_error(
            f"checkpoint storage: {path} belongs to uid {owner}, who could change the TensorBoard files of others "
            f"there: remove it, or give it to root (chown -R root {path})"
        )


@contextmanager
def _opened(root: str) -> Iterator[tuple[int, list[int]]]:
    """A descriptor of `root`, and the list of those to close, itself among them."""
    held = [os.open(root, _OPEN)]
    try:
        yield held[0], held
    finally:
        for descriptor in held:
            os.close(descriptor)


def _enter(parent: int, name: str, held: list[int], mode: int | None) -> int:
    """The folder `name` in `parent`; made with this mode if it is missing and there is a mode."""
    made = False
    if mode is not None:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
            made = True
    descriptor = os.open(name, _OPEN, dir_fd=parent)
    held.append(descriptor)
    if made and mode is not None:
        os.fchmod(descriptor, stat.S_IMODE(mode))
    return descriptor
