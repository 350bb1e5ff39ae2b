#!/usr/bin/env python3
"""The program of `image_tools`: by its name apptainer, singularity or enroot. Standard library only."""

import grp
import json
import os
import pwd
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = os.path.basename(sys.argv[0])
REGISTRY = {
    "registry.example/team/net:1": "net",
    "registry.example/bare:1": "bare",
    "private.example/a:1": "net",
}
PRIVATE = {"private.example/a:1": ("me", "hunter2")}


def main() -> None:
    words = sys.argv[1:]
    with open(os.path.join(HERE, "calls"), "a") as log:
        log.write(json.dumps([NAME, *words]) + "\n")
    if NAME == "enroot":
        enroot(words)
    else:
        apptainer(words)


def fail(text: str) -> None:
    sys.stderr.write(f"FATAL:   {text}\n")
    sys.exit(255)


def variable(name: str) -> str:
    return os.environ.get(f"{NAME.upper()}_{name}", "")


def apptainer(words: list) -> None:
    if words == ["--version"]:
        print(f"{NAME} version 1.3.4")
    elif words[:2] == ["pull", "--disable-cache"] and len(words) == 4:
        login = (variable("DOCKER_USERNAME"), variable("DOCKER_PASSWORD"))
        target, url = words[2:]
        if not os.path.isdir(variable("TMPDIR")):
            fail("no TMPDIR")
        found = pulled(url.partition("://")[2], login)
        write(target, found)
    elif words[:2] == ["build", "--disable-cache"] and len(words) == 4:
        target, url = words[2:]
        transport, _, path = url.partition(":")
        if transport not in ("docker-archive", "oci-archive", "oci") or not os.path.exists(path):
            fail(f"unable to build from {url}")
        write(target, "net")
    elif words[:1] == ["exec"]:
        run_apptainer(words[1:])
    else:
        fail(f"unknown command line: {words}")


def pulled(name: str, login: tuple) -> str:
    print("INFO:    Converting OCI blobs to SIF format", flush=True)
    print("\033[34mINFO:    Fetching OCI image...\033[0m", flush=True)
    while os.path.exists(os.path.join(HERE, "held")):
        time.sleep(0.01)
    if name not in REGISTRY:
        fail(f"while making image from oci registry: manifest unknown: {name}")
    if PRIVATE.get(name, login) != login:
        fail(f"while making image from oci registry: unauthorized: {name}")
    return REGISTRY[name]


def write(target: str, name: str) -> None:
    if os.path.exists(target):
        fail(f"image file already exists: {target}")
    with open(target, "x") as file:
        file.write(name)


def run_apptainer(words: list) -> None:
    for flag in ("--containall", "--no-home", "--writable-tmpfs"):
        expect(words, flag)
    for flag in ("--no-privs", "--nv", "--rocm"):
        if words[0] == flag:
            words.pop(0)
    expect(words, "--pwd")
    expect(words, "/")
    mounts = []
    while words[0] == "--bind":
        source, target, *options = words[1].split(":")
        mounts.append((source, target, options == ["ro"]))
        del words[:2]
    image = words.pop(0)
    if image.startswith("-"):
        fail(f"unknown flag: {image}")
    prefix = f"{NAME.upper()}ENV_"
    given = {k.removeprefix(prefix): v for k, v in os.environ.items() if k.startswith(prefix)}
    if "HOME" not in os.environ:
        fail("no HOME")
    enter(rootfs_of(image), mounts, given, words)


def rootfs_of(image: str) -> str:
    if os.path.isdir(image):
        return image
    with open(image) as file:
        return os.path.join(HERE, "rootfs", file.read().strip())


def expect(words: list, word: str) -> None:
    if not words or words.pop(0) != word:
        fail(f"{word} expected before {words}")


def enroot(words: list) -> None:
    if words == ["version"]:
        print("3.4.1")
    elif words[:2] == ["import", "-o"] and len(words) == 4:
        name = words[3].removeprefix("docker://")
        user, _, name = name.rpartition("@") if "#" in name else ("", "", name)
        write(words[2], pulled(name.replace("#", "/"), credentials(user)))
    elif words[:2] == ["create", "-n"] and len(words) == 4:
        target = os.path.join(os.environ["ENROOT_DATA_PATH"], words[2])
        with open(words[3]) as file:
            name = file.read().strip()
        os.mkdir(target)
        for below in ("etc", "opt", "run", "usr"):
            os.mkdir(os.path.join(target, below))
        write(os.path.join(target, "name"), name)
    elif words[:1] == ["start"]:
        run_enroot(words[1:])
    else:
        fail(f"unknown command line: {words}")


def credentials(user: str) -> tuple:
    if not user:
        return ("", "")
    with open(os.path.join(os.environ["ENROOT_CONFIG_PATH"], ".credentials")) as file:
        words = file.read().split()
    return (words[3], words[5])


def run_enroot(words: list) -> None:
    expect(words, "--rc")
    rc = words.pop(0)
    mounts = [(rc, "/etc/rc", True)]
    while words[0] == "--mount":
        source, target, options = words[1].split(":")
        if options not in ("x-create=auto,rbind", "x-create=auto,rbind,ro"):
            fail(f"unknown mount options: {options}")
        mounts.append((source, target, options.endswith(",ro")))
        del words[:2]
    given = {}
    while words[0] == "--env":
        given[words[1]] = os.environ[words[1]]
        del words[:2]
    rootfs = os.path.join(os.environ["ENROOT_DATA_PATH"], words.pop(0))
    enter(rootfs, mounts, given, ["/bin/sh", "/etc/rc", *words])


def accounts(rootfs: str) -> dict:
    """The image's, and whoever runs this: somebody must have that number."""
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        fail(f"couldn't determine user account information: user: unknown userid {os.getuid()}")
    with open(os.path.join(rootfs, "etc/passwd")) as file:
        names = file.read()
    line = f"{user.pw_name}:x:{user.pw_uid}:{user.pw_gid}::{user.pw_dir}:{user.pw_shell}\n"
    group = grp.getgrgid(user.pw_gid).gr_name
    return {"passwd": names + line, "group": f"{group}:x:{user.pw_gid}:\n"}


def filled(text: str) -> int:
    descriptor = os.memfd_create("text", 0)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def enter(rootfs: str, mounts: list, given: dict, words: list) -> None:
    if os.path.exists(os.path.join(HERE, "broken")):
        fail("container creation failed: while mounting image: operation not permitted")
    name = os.path.join(rootfs, "name")
    known = None  # what somebody unpacked has what it has
    if os.path.exists(name):
        with open(name) as file:
            known = file.read()
    arguments = ["bwrap", "--unshare-user", "--unshare-pid", "--die-with-parent"]
    arguments += ["--tmpfs", "/", "--dir", "/etc"]
    if NAME != "enroot":
        for name, text in accounts(rootfs).items():
            arguments += ["--ro-bind-data", str(filled(text)), f"/etc/{name}"]
    if known:
        arguments += ["--ro-bind", "/usr", "/usr"]
    arguments += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    # Bound whatever else is not: the machine's names, of which localhost is one.
    arguments += ["--ro-bind", "/etc/hosts", "/etc/hosts"]
    arguments += ["--ro-bind-data", str(filled("hosts: files\n")), "/etc/nsswitch.conf"]
    for entry in os.scandir(rootfs):
        if entry.is_symlink():
            arguments += ["--symlink", os.readlink(entry.path), f"/{entry.name}"]
    for name in ("bin", "lib", "lib64") if known else ():
        arguments += ["--symlink", f"usr/{name}", f"/{name}"]
    for source, target, read_only in mounts:
        arguments += ["--ro-bind" if read_only else "--bind", source, target]
    arguments += ["--chdir", "/", "--clearenv"]
    path = "/none" if known == "bare" else "/usr/bin:/bin"
    for key, value in {"PATH": path, **given}.items():
        arguments += ["--setenv", key, value]
    os.execvp("bwrap", [*arguments, "--", *words])


main()
