"""The exact command lines of Apptainer, Singularity and Enroot, as recorded from their documentation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_bootstrap.agent.runtimes.base import StartRefused
from agent_bootstrap.agent.runtimes.commands import podman
from agent_bootstrap.agent.runtimes.commands.apptainer import Apptainer
from agent_bootstrap.agent.runtimes.commands.enroot import RC, Enroot
from agent_bootstrap.agent.runtimes.commands.podman import Podman, find
from agent_bootstrap.agent.runtimes.commands.tool import Gpus, environment, version_of
from agent_bootstrap.agent.runtimes.image_task import ENTRY, ImageTask
from agent_bootstrap.agent.runtimes.mount_list import Mount
from agent_bootstrap.container_options import ContainerOptions, Device, OsUser
from agent_bootstrap.protocol import ContainerSpec, RegistryCredentials
from windlass.base.errors import InvalidConfig
from windlass.base.formats.image_reference import parse_image

LOGIN = RegistryCredentials(username="me", password="hunter2")
SCRATCH = Path("/scratch")
MOUNTS = (
    Mount(kind="bind", source="/w/tmp", target="/tmp", private=True),
    Mount(kind="bind", source="/data", target="/mnt/data", read_only=True),
    Mount(kind="hide", source="folder", target="/mnt/data/secret"),
)
SOURCES = ("/w/tmp", "/data", "/w/empty")


def task(uid: int = 1000, devices: tuple[Device, ...] = ()) -> ImageTask:
    spec = ContainerSpec(
        container_id="c",
        allocation_id="t.1",
        task_id="t",
        task_type="COMMAND",
        entrypoint=("true",),
        environment={},
        options=ContainerOptions(image="net", devices=devices),
    )
    return ImageTask(
        image="net",
        spec=spec,
        who=OsUser(uid=uid, gid=uid, user="u", group="u"),
        groups=(),
        mounts=MOUNTS,
        entry=ENTRY,
        variables={"DET_CONTAINER_ID": "c"},
        work_dir="/run/determined/workdir",
        home="/run/determined/workdir",
    )


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_apptainer_pulls_what_registries_have_and_builds_of_archives(name: str) -> None:
    tool = Apptainer(name=name, program=f"/usr/bin/{name}")  # type: ignore[arg-type]
    target = Path("/c/net.sif")
    prefix = name.upper()
    (pull,) = tool.make(parse_image("registry.example/net:1"), target, LOGIN, SCRATCH)
    assert pull.words == (
        *(f"/usr/bin/{name}", "pull", "--disable-cache", "/c/net.sif"),
        "docker://registry.example/net:1",
    )
    assert pull.environment == {
        f"{prefix}_TMPDIR": "/scratch",
        f"{prefix}_DOCKER_USERNAME": "me",
        f"{prefix}_DOCKER_PASSWORD": "hunter2",
    }
    assert "hunter2" not in repr(pull)
    (build,) = tool.make(parse_image("oci-archive:/i/net.tar"), target, None, SCRATCH)
    assert build.words[1:] == (
        *("build", "--disable-cache", "/c/net.sif", "oci-archive:/i/net.tar"),
    )


def test_apptainer_runs_a_task() -> None:
    tool = Apptainer(program="/usr/bin/apptainer")
    assert tool.run(task(), "/c/net.sif", SOURCES, Gpus()) == [
        *("/usr/bin/apptainer", "exec", "--containall", "--no-home", "--writable-tmpfs"),
        *("--pwd", "/", "--bind", "/w/tmp:/tmp", "--bind", "/data:/mnt/data:ro"),
        *("--bind", "/w/empty:/mnt/data/secret:ro"),
        *("/c/net.sif", "/bin/sh", "/opt/windlass/agent_bootstrap/supervisor/image_entry.sh"),
    ]
    assert tool.environment(task(), "/c/net.sif", Gpus(), SCRATCH) == {
        "APPTAINERENV_DET_CONTAINER_ID": "c"
    }


@pytest.mark.parametrize(
    ("gpus", "flags"),
    [(Gpus(nvidia=("GPU-1",)), ["--nv"]), (Gpus(amd=("1",)), ["--rocm"]), (Gpus(), [])],
)
def test_apptainer_brings_the_driver_of_the_tasks_gpus(gpus: Gpus, flags: list[str]) -> None:
    words = Apptainer().run(task(), "/c/net.sif", SOURCES, gpus)
    assert words[5 : words.index("--pwd")] == flags


def test_apptainer_leaves_root_no_rights() -> None:
    assert "--no-privs" in Apptainer().run(task(uid=0), "/c/net.sif", SOURCES, Gpus())


def test_devices_are_mounted() -> None:
    device = Device(host_path="/dev/infiniband", container_path="/dev/ib")
    words = Apptainer().run(task(devices=(device,)), "/c/net.sif", SOURCES, Gpus())
    assert words[words.index("/dev/infiniband:/dev/ib") - 1] == "--bind"
    words = Enroot().run(task(devices=(device,)), "/c/net", SOURCES, Gpus())
    assert "/dev/infiniband:/dev/ib:x-create=auto,rbind" in words


@pytest.mark.parametrize("tool", [Apptainer(), Enroot()])
@pytest.mark.parametrize("source", ["/a,b", "/a:b", "/a\\b"])
def test_a_path_that_the_command_line_cannot_say_is_refused(
    tool: Apptainer | Enroot, source: str
) -> None:
    with pytest.raises(StartRefused, match=r"cannot mount paths with a comma.*rename it"):
        tool.run(task(), "/c/net", (source, *SOURCES[1:]), Gpus())


def test_enroot_imports_and_creates() -> None:
    tool = Enroot(program="/usr/bin/enroot")
    pull, create = tool.make(
        parse_image("registry.example:5000/team/net:1"), Path("/c/net-1"), LOGIN, SCRATCH
    )
    assert pull.words == (
        *("/usr/bin/enroot", "import", "-o", "/scratch/image.sqsh"),
        "docker://me@registry.example:5000#team/net:1",
    )
    assert pull.files == {
        SCRATCH / ".credentials": "machine registry.example login me password hunter2\n"
    }
    assert pull.environment["ENROOT_CONFIG_PATH"] == "/scratch"
    assert create.words == ("/usr/bin/enroot", "create", "-n", "net-1", "/scratch/image.sqsh")
    assert create.environment["ENROOT_DATA_PATH"] == "/c"
    assert "hunter2" not in repr((pull, create))


def test_enroot_takes_its_own_files_and_no_others() -> None:
    (create,) = Enroot().make(parse_image("/i/net.sqsh"), Path("/c/net-1"), None, SCRATCH)
    assert create.words == ("enroot", "create", "-n", "net-1", "/i/net.sqsh")
    with pytest.raises(StartRefused, match=r"Enroot runs images of registries and \.sqsh files"):
        Enroot().make(parse_image("library://net"), Path("/c/net-1"), None, SCRATCH)


@pytest.mark.parametrize(
    ("image", "uri"),
    [
        ("python:3.11", "docker://library/python:3.11"),
        ("nvcr.io/nvidia/net:1", "docker://nvcr.io#nvidia/net:1"),
    ],
)
def test_enroot_has_a_spelling_of_its_own(image: str, uri: str) -> None:
    assert Enroot().make(parse_image(image), Path("/c/x"), None, SCRATCH)[0].words[-1] == uri


@pytest.mark.parametrize("password", ["", "two words", "line\nend"])
def test_a_password_that_a_netrc_cannot_hold_is_refused_unseen(password: str) -> None:
    login = RegistryCredentials(username="me", password=password)
    with pytest.raises(StartRefused, match="this password") as refused:
        Enroot().make(parse_image("r.example/net"), Path("/c/x"), login, SCRATCH)
    assert not password or password not in str(refused.value)


def test_enroot_runs_a_task() -> None:
    gpus = Gpus(nvidia=("GPU-1", "GPU-2"))
    assert Enroot().run(task(), "/c/net-1", SOURCES, gpus) == [
        *("enroot", "start", "--rc", RC, "--mount", "/w/tmp:/tmp:x-create=auto,rbind"),
        *("--mount", "/data:/mnt/data:x-create=auto,rbind,ro"),
        *("--mount", "/w/empty:/mnt/data/secret:x-create=auto,rbind,ro"),
        *("--env", "DET_CONTAINER_ID", "--env", "NVIDIA_VISIBLE_DEVICES"),
        *("net-1", "/bin/sh", "/opt/windlass/agent_bootstrap/supervisor/image_entry.sh"),
    ]
    told = Enroot().environment(task(), "/c/net-1", gpus, SCRATCH)
    assert told["NVIDIA_VISIBLE_DEVICES"] == "GPU-1,GPU-2"
    assert Enroot().environment(task(), "/c/x", Gpus(), SCRATCH)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_enroot_is_given_no_name_that_it_takes_for_an_option() -> None:
    with pytest.raises(StartRefused, match="enroot would take --rc for an option: rename the f"):
        Enroot().run(task(), "/images/--rc", SOURCES, Gpus())


def test_pulls_are_given_nothing_of_the_agent_that_is_not_for_them() -> None:
    own = {
        "PATH": "/bin",
        "https_proxy": "p",
        "APPTAINER_CACHEDIR": "c",
        "DET_JOIN_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    assert environment(own) == {k: v for k, v in own.items() if v != "secret"}


def test_a_program_that_is_not_there_or_does_not_work_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidConfig, match="apptainer does not work here: there is no such"):
        version_of("apptainer", ["--version"])
    (tmp_path / "apptainer").write_text("#!/bin/sh\necho no libraries >&2; exit 3\n")
    (tmp_path / "apptainer").chmod(0o755)
    with pytest.raises(InvalidConfig, match="no libraries"):
        version_of("apptainer", ["--version"])


PODMAN = Podman(program="/usr/bin/podman", store=Path("/local/p"), run_root=Path("/local/p/run"))
PODMAN_WORDS = (
    *("/usr/bin/podman", "--cgroup-manager=cgroupfs"),
    *("--root=/local/p/root", "--runroot=/local/p/run"),
)


def test_podman_pulls_once_and_keeps_an_archive() -> None:
    pull, save = PODMAN.make(
        parse_image("registry.example:5000/team/net:1"), Path("/c/net.tar"), LOGIN, SCRATCH
    )
    name = "registry.example:5000/team/net:1"
    logins = ("--authfile", "/scratch/logins.json")
    assert pull.words == (*PODMAN_WORDS, "pull", "--quiet", *logins, name)
    assert pull.files == {
        SCRATCH
        / "logins.json": '{"auths": {"registry.example:5000": {"auth": "bWU6aHVudGVyMg=="}}}'
    }
    assert save.words == (
        *(*PODMAN_WORDS, "save", "--quiet", "--format", "oci-archive"),
        *("--output", "/c/net.tar", name),
    )
    assert pull.environment == save.environment == {"XDG_RUNTIME_DIR": "/local/p/session"}
    assert "hunter2" not in repr((pull, save))


def test_podman_takes_archives_and_says_what_it_does_not() -> None:
    (copy,) = PODMAN.make(parse_image("oci-archive:/i/net.tar"), Path("/c/n.tar"), None, SCRATCH)
    assert copy.words == ("cp", "--", "/i/net.tar", "/c/n.tar")
    with pytest.raises(StartRefused, match="Podman runs images of registries, oci-archive"):
        PODMAN.make(parse_image("docker-archive:/i/net.tar"), Path("/c/n.tar"), None, SCRATCH)


def test_podman_runs_a_task(tmp_path: Path) -> None:
    assert PODMAN.run(task(), "/c/net.tar", SOURCES, Gpus()) == [
        *(*PODMAN_WORDS, "run", "--rm", "--name=windlass-c", "--network=host"),
        *("--security-opt=label=disable", "--cap-drop=all", "--security-opt=no-new-privileges"),
        *("--log-driver=none", "--workdir=/", "--userns=keep-id", "--volume=/w/tmp:/tmp"),
        *("--volume=/data:/mnt/data:ro", "--volume=/w/empty:/mnt/data/secret:ro"),
        *("--env=DET_CONTAINER_ID", "--entrypoint=", "oci-archive:/c/net.tar"),
        *("/bin/sh", "/opt/windlass/agent_bootstrap/supervisor/image_entry.sh"),
    ]
    assert PODMAN.environment(task(), "/c/net.tar", Gpus(), SCRATCH) == {
        "XDG_RUNTIME_DIR": "/local/p/session",
        "DET_CONTAINER_ID": "c",
    }
    unpacked = PODMAN.run(task(), str(tmp_path), SOURCES, Gpus())
    assert unpacked[unpacked.index("--rootfs") + 1] == f"{tmp_path}:O"
    assert "--userns=keep-id" not in PODMAN.run(task(uid=0), "/c/net.tar", SOURCES, Gpus())


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (Gpus(nvidia=("GPU-1",)), ["--device=nvidia.com/gpu=all"]),
        (Gpus(amd=("1",)), ["--device=/dev/kfd", "--device=/dev/dri"]),
    ],
)
def test_podman_gives_gpus(gpus: Gpus, words: list[str]) -> None:
    assert set(words) < set(PODMAN.run(task(), "/c/net.tar", SOURCES, gpus))


def test_podman_removes_what_was_killed() -> None:
    assert PODMAN.clear("c").words == (
        *(*PODMAN_WORDS, "rm", "--force", "--ignore", "--time=0", "windlass-c"),
    )


@pytest.fixture
def has_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin/podman"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho podman version 4.3.1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.usefixtures("has_podman")
def test_what_runs_in_podman_has_a_short_folder_where_that_of_the_job_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Podman refuses a run root of more than 50 characters."""
    uid = tmp_path.stat().st_uid or 1000
    monkeypatch.setattr("os.geteuid", lambda: uid)
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(podman, "_make_private", make)
    monkeypatch.setattr(podman, "SHORT", tmp_path / "s")
    monkeypatch.setattr(
        podman, "MAX_RUN_ROOT", len(f"{tmp_path}/s/windlass-podman-{uid}-12345678/run")
    )
    found = find(tmp_path)
    assert found.run_root == found.store / "run"
    long = tmp_path / "of/a/user/with/a/long/name"
    found, again, other = find(long / "1"), find(long / "1"), find(long / "2")
    assert found.store == long / f"1/windlass-podman-{uid}"
    assert len(str(found.run_root)) <= podman.MAX_RUN_ROOT
    assert found.run_root == again.run_root != other.run_root
    assert {found.store, found.run_root.parent} <= set(made)
    shutil.rmtree(long / "1")
    find(long / "2")
    assert not found.run_root.parent.exists(), "its job is over"
    assert other.run_root.parent.exists()


@pytest.mark.usefixtures("has_podman")
def test_the_store_of_podman_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(InvalidConfig, match="the agent is root"):
        find(tmp_path)
    uid = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: uid or 1000)
    if uid:
        assert find(tmp_path).shown == "podman 4.3.1"
    store = tmp_path / f"windlass-podman-{uid or 1000}"
    store.mkdir(exist_ok=True)
    store.chmod(0o755)
    with pytest.raises(InvalidConfig, match="is not a folder of this user alone"):
        find(tmp_path)
