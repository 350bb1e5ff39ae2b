"""Which queues and accounts are open to a user, as Slurm and PBS tell. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from master.hpc.site.facts import Association
from master.hpc.site.limits import OF_ACCOUNTS, limits_in_words
from provisioner.batch.pbs.text import Record
from provisioner.batch.slurm.text import records

ASSOCIATIONS = ("account", "partition", "qos", *OF_ACCOUNTS)
"""Fields of `sacctmgr show assoc`, in this order."""
_ALL = ("", "ALL", "(null)")


def accounts_of(associations: str, default: str) -> tuple[Association, ...]:
    """Of `sacctmgr -n -P show assoc format=...`. `default`: the user's default account. That one first."""
    found = []
    for line in associations.splitlines():
        words = line.strip().split("|")
        if len(words) >= 4 and words[0]:
            name, partition, qos, submit = words[:4]
            account = Association(
                name=name,
                partition=partition,
                qos=tuple(filter(None, qos.split(","))),
                max_submit=int(submit) if submit.isdigit() else None,
                limits=limits_in_words(OF_ACCOUNTS, words[3:]),
                is_default=name == default.strip(),
            )
            found.append(account)
    return tuple(sorted(found, key=lambda account: not account.is_default))


def closed_partitions(
    partitions: str, *, groups: Collection[str], accounts: Sequence[Association], is_root: bool
) -> dict[str, str]:
    """Of `scontrol show partition -o`: those that do not take our jobs, and why."""
    closed = {}
    names = {account.name for account in accounts}
    for record in records(partitions):
        name = record.get("PartitionName", "")
        allowed = _list(record, "AllowGroups")
        paying, denied = _list(record, "AllowAccounts"), _list(record, "DenyAccounts")
        if allowed and not is_root and not allowed & set(groups):
            closed[name] = f"it is for the groups {_words(allowed)}"
        elif record.get("RootOnly") == "YES" and not is_root:
            closed[name] = "it is for root alone"
        elif paying and names and not paying & names:
            closed[name] = f"it is for the accounts {_words(paying)}"
        elif denied and names and names <= denied:
            closed[name] = f"it refuses the accounts {_words(names)}"
    return closed


def closed_queues(
    queues: Mapping[str, Record], *, user: str, groups: Collection[str]
) -> dict[str, str]:
    """Of `qstat -Q -f`: those that do not take our jobs, and why."""
    closed = {}
    for name, record in queues.items():
        if record.get("from_route_only", "").lower() == "true":
            closed[name] = "it takes jobs of routing queues only"
        elif _is_on(record, "acl_user_enable") and not _has(record, "acl_users", {user}):
            closed[name] = "you are not among its users (acl_users)"
        elif _is_on(record, "acl_group_enable") and not _has(record, "acl_groups", groups):
            closed[name] = f"it is for the groups {record.get('acl_groups', '')}"
    return closed


def _list(record: Mapping[str, str], key: str) -> set[str]:
    """Empty: no limit."""
    text = record.get(key, "")
    return set() if text in _ALL else set(text.split(","))


def _is_on(record: Record, key: str) -> bool:
    return record.get(key, "").lower() == "true"


def _has(record: Record, key: str, names: Collection[str]) -> bool:
    """Entries may name hosts (`me@*`), and forbid (`-me`)."""
    entries = {entry.strip().partition("@")[0] for entry in record.get(key, "").split(",")}
    return any(f"-{name}" not in entries and {name, f"+{name}"} & entries for name in names)


def _words(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
