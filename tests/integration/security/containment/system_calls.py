"""System calls that the filter stops."""

from __future__ import annotations

import errno

from rows import refused_call

NOTHING = b"/nothing\0"
for row in (
    ("mount", 165, 40, b"tmpfs\0", b"/tmp\0", b"tmpfs\0", 0, 0),
    ("umount2 of /tmp", 166, 39, b"/tmp\0", 2),
    ("umount2 of /proc/sys", 166, 39, b"/proc/sys\0", 2),
    ("pivot_root", 155, 41, b"/tmp\0", b"/tmp\0"),
    ("chroot", 161, 51, b"/tmp\0"),
    ("open_tree", 428, 428, -100, b"/\0", 1),
    ("move_mount", 429, 429, -100, b"/tmp\0", -100, b"/mnt\0", 0),
    ("fsopen", 430, 430, b"tmpfs\0", 0),
    ("fsconfig", 431, 431, 3, 0, 0, 0, 0),
    ("fsmount", 432, 432, 3, 0, 0),
    ("fspick", 433, 433, -100, b"/\0", 0),
    ("mount_setattr", 442, 442, -100, b"/\0", 0, 0, 0),
    ("setns", 308, 268, 0, 0),
    ("open_by_handle_at", 304, 265, 3, 0, 0),
    ("quotactl", 179, 60, 0, 0, 0, 0),
    ("acct", 163, 89, 0),
    ("swapon", 167, 224, NOTHING, 0),
    ("swapoff", 168, 225, NOTHING),
    ("fanotify_init", 300, 262, 0, 0),
    ("keyctl", 250, 219, 0, -3, 1, 0, 0),
    ("add_key", 248, 217, b"user\0", b"k\0", b"v\0", 1, -3),
    ("request_key", 249, 218, b"user\0", b"k\0", 0, -3),
    ("bpf", 321, 280, 0, 0, 0),
    ("perf_event_open", 298, 241, 0, 0, -1, -1, 0),
    ("userfaultfd", 323, 282, 1),
    ("io_uring_setup", 425, 425, 1, 0),
    ("io_uring_enter", 426, 426, 0, 0, 0, 0, 0, 0),
    ("init_module", 175, 105, 0, 0, b"\0"),
    ("finit_module", 313, 273, 0, b"\0", 0),
    ("delete_module", 176, 106, b"x\0", 0),
    ("kexec_load", 246, 104, 0, 0, 0, 0),
    ("kexec_file_load", 320, 294, 0, 0, 0, 0, 0),
    ("reboot", 169, 142, 0, 0, 0, 0),
    ("settimeofday", 164, 170, 0, 0),
    ("clock_settime", 227, 112, 0, 0),
    ("sethostname", 170, 161, b"x\0", 1),
    ("setdomainname", 171, 162, b"x\0", 1),
    ("syslog", 103, 116, 3, 0, 0),
    ("vhangup", 153, 58),
    ("iopl", 172, -1, 3),
    ("ioperm", 173, -1, 0, 1, 1),
    ("unshare of users", 272, 97, 0x1000_0000),
    ("unshare of mounts", 272, 97, 0x0002_0000),
    ("unshare of pids", 272, 97, 0x2000_0000),
    ("unshare of the network", 272, 97, 0x4000_0000),
    ("unshare of ipc", 272, 97, 0x0800_0000),
    ("unshare of cgroups", 272, 97, 0x0200_0000),
    ("unshare of time", 272, 97, 0x80),
    ("clone with a user namespace", 56, 220, 0x1000_0011, 0, 0, 0, 0),
    ("clone with a mount namespace", 56, 220, 0x0002_0011, 0, 0, 0, 0),
    ("ioctl TIOCSTI", 16, 29, 0, 0x5412, b"x\0"),
    ("ioctl TIOCLINUX", 16, 29, 0, 0x541C, b"\3\0"),
    ("socket to the hypervisor", 41, 198, 40, 1, 0),
    ("x32 getpid", 0x4000_0027, -1),
):
    refused_call(*row)
refused_call("clone3", 435, 435, 0, 0, told=errno.ENOSYS)
