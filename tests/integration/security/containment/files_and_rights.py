"""Files and devices of the machine, of Windlass and of others; rights that a task must not get."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from rows import FACTS, attack, exists, listed, output_of, own_status, read, write


def _new_file() -> str:
    fd, path = tempfile.mkstemp()
    os.close(fd)
    return path


def _without_nosuid() -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    masks = {"/dev", "/proc", "/sys"}
    return [
        p
        for p in points
        if not os.statvfs(p).f_flag & os.ST_NOSUID
        and os.path.isdir(p)
        and p.split("/")[1] not in masks
    ]


for name in FACTS.get("secret_paths", {}):
    attack(f"read {name}", lambda path=FACTS["secret_paths"][name]: read(path)())
    attack(f"see {name}", exists(FACTS["secret_paths"][name]))
for name in FACTS.get("hidden_folders", {}):
    attack(f"list {name}", listed(FACTS["hidden_folders"][name]))
for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers"):
    attack(f"read {path}", read(path))
attack(
    "read host keys of sshd", lambda: [p for p in Path("/etc/ssh").glob("*_key") if p.read_bytes()]
)
attack("list /home", listed("/home"))
attack("list /etc/ssl/private", listed("/etc/ssl/private"))
attack(
    "list /run of the machine",
    lambda: set(os.listdir("/run")) - {"determined", "sshd", "lock", *FACTS["resolvers"]},
)
for path in (
    *(
        "/new",
        "/etc/new",
        "/etc/passwd",
        "/usr/new",
        "/usr/bin/env",
        "/opt/new",
        "/root/new",
        "/home/new",
    ),
    *(
        "/sys/new",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
    ),
    *("/proc/sys/kernel/modprobe", "/dev/new", "/run/new", "/var/new"),
    *(f"{sys.prefix}/new", f"{sys.base_prefix}/new", f"{FACTS.get('checkout', '/')}/windlass/new"),
):
    attack(f"write {path}", write(path))
attack(
    "write a cgroup",
    lambda: [write(str(p))() for p in Path("/sys/fs/cgroup").rglob("cgroup.procs")][:1],
)
attack("write a read-only mount", write("/mnt/read-only/new"))
attack("remove the work of another user", lambda: shutil.rmtree("/etc/ssl") is None)
attack("read the kernel's memory", read("/proc/kcore"))
attack("read the kernel's keys", read("/proc/keys"))
attack("list the kernel's debug folder", listed("/sys/kernel/debug"))
attack("list the firmware", listed("/sys/firmware"))
attack("hard link to a file of root", lambda: os.link("/usr/bin/env", "/tmp/env") is None)
attack("give a file to root", lambda: os.chown(_new_file(), 0, 0) is None)

attack("become root", lambda: os.setuid(0) is None)
attack("become the root group", lambda: os.setgid(0) is None)
attack("add groups", lambda: os.setgroups([0]) is None)
attack(
    "hold a capability", lambda: int(own_status()["CapPrm"], 16) | int(own_status()["CapEff"], 16)
)
attack(
    "inherit a capability",
    lambda: int(own_status()["CapInh"], 16) | int(own_status()["CapAmb"], 16),
)
attack("gain a capability by exec", lambda: int(own_status()["CapBnd"], 16))
attack("new privileges", lambda: own_status()["NoNewPrivs"] != "1")
attack("no filter", lambda: own_status()["Seccomp"] != "2")
attack("set-user-id programs", lambda: _without_nosuid())
attack("a shell by su", lambda: output_of("su", "-c", "id -u").strip() == "0")
attack("a user namespace by unshare", lambda: output_of("unshare", "-Ur", "id", "-u"))
attack("a jail in the jail", lambda: output_of("bwrap", "--bind", "/", "/", "id", "-u"))

DEVICES = {
    *("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd"),
    *("stdin", "stdout", "stderr", "core"),
}
attack("devices of the machine", lambda: set(os.listdir("/dev")) - DEVICES - set(FACTS["devices"]))
attack(
    "make a block device",
    lambda: os.mknod("/tmp/disk", stat.S_IFBLK | 0o666, os.makedev(8, 0)) is None,
)
attack(
    "make a memory device",
    lambda: os.mknod("/tmp/mem", stat.S_IFCHR | 0o666, os.makedev(1, 1)) is None,
)
attack("a terminal", lambda: os.open("/dev/tty", os.O_RDWR) >= 0)
attack("the kernel's log", read("/dev/kmsg"))
