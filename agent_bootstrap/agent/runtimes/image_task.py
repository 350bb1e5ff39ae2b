"""A task in an image: what every way of running one (an engine, Apptainer, Enroot) is given to start it.

Whatever the engine is, the container's first program is `supervisor/image_entry.sh`, which looks for a Python and
starts `supervisor/image_init.py`; that reads the rest from a file, so that no variable of a task is on a command line
or with the engine. Neither image nor engine has to know the user: the names, home and working folder come from here.

In the container:
  /run/determined, /tmp           the task's own tree
  /opt/windlass/task              of this task, read-only: what to run, and the pipes to its supervisor, if it has any
  /opt/windlass/windlass          the launcher and `windlass.core`, as the agent has them
  /opt/windlass/agent_bootstrap   entry script and first process
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agent_bootstrap
from agent_bootstrap.agent.containers.directory import ContainerDir
from agent_bootstrap.agent.containers.environment import (
    RUN_DIR,
    TMP_DIR,
    TOOLS_DIR,
    ContainerPaths,
    NodeFacts,
    device_variables,
    image_environment,
)
from agent_bootstrap.agent.containers.mounts import check_targets, identities, user_error
from agent_bootstrap.agent.identity import own_identity
from agent_bootstrap.agent.runtimes.accounts import (
    GROUP,
    PASSWD,
    supplementary_groups,
    with_account,
    write_copies,
)
from agent_bootstrap.agent.runtimes.devices import task_gpus
from agent_bootstrap.agent.runtimes.gpu_tools import write_gpu_tools
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.agent.runtimes.task_root import hidden_mounts
from agent_bootstrap.agent.runtimes.task_tree import LaidOut, give_to, lay_out, refused_in_words
from agent_bootstrap.bind_rules import HostPaths, resolved
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.privilege_rules import Privileges, capability_problems, device_problems
from agent_bootstrap.protocol import Bind, ContainerSpec, SlotKind
from windlass.base.files import write_atomic

OPT_DIR = "/opt/windlass"
TASK_DIR = f"{OPT_DIR}/task"
ENTRY = ("/bin/sh", f"{OPT_DIR}/agent_bootstrap/supervisor/image_entry.sh")
PIPES = ("out", "err", "told")
DEFAULT_HOME = f"{RUN_DIR}/workdir"
_GIVEN = ("rundet", "tmp", "files", "accounts", "start")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTask:
    """Ready to be started by an engine. Nothing in it is secret."""

    image: str
    spec: ContainerSpec
    who: OsUser
    """Inside. On the machine it is the same number, or the agent, where the engine maps users."""
    groups: tuple[int, ...]
    """Supplementary ones."""
    mounts: tuple[Mount, ...]
    """`bind` and `hide`, in order: a later one may lie in an earlier one."""
    entry: tuple[str, ...]
    """The first program. The image's own entrypoint, if it has one, follows as its arguments."""
    variables: Mapping[str, str]
    """What entry script and engine need; everything else the first process reads from its file."""
    work_dir: str
    home: str


def prepare_image_task(
    place: ContainerDir,
    spec: ContainerSpec,
    node: NodeFacts,
    rules: HostPaths,
    *,
    who: OsUser,
    accounts: Mapping[str, str],
    shares_gpus: bool = False,
    privileges: Privileges | None = None,
) -> ImageTask:
    """Everything in the task's directory. Raises StartRefused. Blocks: files may be large.

    `rules` and `privileges`: the agent's own. `who`: inside the container. `accounts`: the image's passwd and group by
    path, as far as it has them. `shares_gpus`: the container shows all GPUs of the machine, or may.
    """
    _require_privileges(spec, privileges)
    with refused_in_words():
        agent = own_identity()
        # An engine that is not root maps whoever is inside to the agent.
        task = who if agent.uid == 0 else agent
        laid = lay_out(ContainerPaths(place, True), spec, node, rules, agent=agent, task=task)
        home = laid.work_dir if _is_own(laid) else DEFAULT_HOME
        files = [*laid.file_binds, *_accounts(place, who, home, accounts)]
        check_targets(laid.user_binds, [*(bind.target for bind in files), OPT_DIR])
        _make_mount_points(laid, ContainerPaths(place, True))
        variables = _limit_gpus(place, spec, node) if shares_gpus else {}
        seen = None if shares_gpus else _gpus(spec, node)
        _write_start(place, laid, node, home, {"variables": variables, "gpus": seen})
        if agent.uid == 0 and who.uid != 0:
            give_to(who, *map(place.path.joinpath, _GIVEN))
        return ImageTask(
            image=spec.options.image,
            spec=laid.spec,
            who=who,
            groups=tuple(supplementary_groups(who)) if agent.uid == 0 else (),
            mounts=_mounts(place, laid, files, (*rules.forbidden, *_forbidden(spec))),
            entry=ENTRY,
            variables=_variables(laid.spec),
            work_dir=laid.work_dir,
            home=home,
        )


def start_folder(place: ContainerDir) -> Path:
    """What the container sees as `TASK_DIR`."""
    return place.path / "start"


def make_pipes(place: ContainerDir, who: OsUser) -> None:
    """For its output: complete and in order, whatever lies between the supervisor and the task."""
    for name in PIPES:
        path = start_folder(place) / name
        os.mkfifo(path, 0o600)
        if os.geteuid() == 0 and who.uid != 0:
            os.chown(path, who.uid, who.gid)


def _require_privileges(spec: ContainerSpec, own: Privileges | None) -> None:
    options = spec.options
    devices = [device.host_path for device in options.devices]
    for rules in filter(None, (options.privileges, own)):
        for number, problem in capability_problems(options.add_capabilities, rules):
            raise user_error(f"add_capabilities: {options.add_capabilities[number]} {problem}")
        for number, problem in device_problems(devices, rules):
            raise user_error(f"resources.devices: {devices[number]} {problem}")


def _is_own(laid: LaidOut) -> bool:
    """The working folder is one that the task's user can write: of its own tree, or mounted."""
    targets = (RUN_DIR, TMP_DIR, *(bind.target for bind in laid.user_binds if not bind.read_only))
    return any(laid.work_dir == path or laid.work_dir.startswith(f"{path}/") for path in targets)


def _accounts(
    place: ContainerDir, who: OsUser, home: str, originals: Mapping[str, str]
) -> list[Bind]:
    texts = with_account({PASSWD: "", GROUP: ""} | dict(originals), who, home)
    copies = write_copies(place.path / "accounts", texts)
    for copy, _ in copies:
        copy.chmod(0o644)
    return [Bind(source=str(copy), target=path, read_only=True) for copy, path in copies]


def _make_mount_points(laid: LaidOut, layout: ContainerPaths) -> None:
    """In the task's own tree, so that they belong to its user and not to whoever runs the engine."""
    for bind in laid.user_binds:
        point = layout.on_host(bind.target)
        if point is None or point.exists():
            continue
        point.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if Path(bind.source).is_dir():
            point.mkdir()
        else:
            point.touch()


def _limit_gpus(place: ContainerDir, spec: ContainerSpec, node: NodeFacts) -> dict[str, str]:
    """As for a process: by variables, and by an nvidia-smi of ours. Empty: the machine has none."""
    write_gpu_tools(place.rundet / "bin", node.gpus, task_gpus(spec, node))
    return dict(device_variables(spec, node, ContainerPaths(place, True)))


def _write_start(
    place: ContainerDir, laid: LaidOut, node: NodeFacts, home: str, gpus: Mapping[str, Any]
) -> None:
    spec = laid.spec
    if not spec.entrypoint:
        raise user_error("the entrypoint is empty")
    environment = image_environment(spec, node, home)
    document = {
        "argv": list(spec.entrypoint),
        "below": environment.below,
        "above": environment.above | gpus["variables"],
        "path": TOOLS_DIR if gpus["variables"] else "",
        "packages": OPT_DIR,
        "work_dir": laid.work_dir,
        "mounted": identities(laid.user_binds),
        "image": spec.options.image,
        "gpus": gpus["gpus"],
    }
    folder = start_folder(place)
    folder.mkdir()
    folder.chmod(0o755)
    write_atomic(folder / "task.json", json.dumps(document).encode())


def _gpus(spec: ContainerSpec, node: NodeFacts) -> list[str] | None:
    """What it has to see inside, and nothing else. None: the machine has none that could show up."""
    known = [slot for slot in node.slots if slot.kind is SlotKind.CUDA]
    return [slot.uuid for slot in known if slot.id in spec.slot_ids] if known else None


def _variables(spec: ContainerSpec) -> dict[str, str]:
    python = spec.environment.get("DET_PYTHON_EXECUTABLE")
    found = {"DET_CONTAINER_ID": spec.container_id}
    return found | ({"DET_PYTHON_EXECUTABLE": python} if python else {})


def _forbidden(spec: ContainerSpec) -> tuple[str, ...]:
    return spec.options.host_paths.forbidden


def _mounts(
    place: ContainerDir, laid: LaidOut, files: list[Bind], forbidden: tuple[str, ...]
) -> tuple[Mount, ...]:
    ours = Path(agent_bootstrap.__file__).resolve().parent.parent
    packages = {f"{OPT_DIR}/{name}": str(ours / name) for name in ("windlass", "agent_bootstrap")}
    own = [
        _bind(str(place.tmp), TMP_DIR),
        _bind(str(place.rundet), RUN_DIR),
        _bind(str(start_folder(place)), TASK_DIR, read_only=True),
        *(_bind(source, target, read_only=True) for target, source in packages.items()),
    ]
    cluster = {resolved(path) for path in laid.spec.options.host_paths.cluster}
    extra = [
        *(_bind(bind.source, bind.target, read_only=bind.read_only) for bind in files),
        *(_by_user(bind, private=bind.source in cluster) for bind in laid.user_binds),
    ]
    # What lies inside of another must come later.
    mounts = [*own, *sorted(extra, key=lambda mount: mount.target.count("/"))]
    return (*mounts, *hidden_mounts(extra, forbidden))


def _bind(source: str, target: str, *, read_only: bool = False) -> Mount:
    return Mount(kind="bind", source=source, target=target, read_only=read_only, private=True)


def _by_user(bind: Bind, *, private: bool) -> Mount:
    """`private`: of the cluster's own configuration, mounted with the agent's rights."""
    return Mount(
        kind="bind",
        source=bind.source,
        target=bind.target,
        read_only=bind.read_only,
        by_user=not private,
        private=private,
        exact=True,
    )
