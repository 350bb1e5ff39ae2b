"""Which accounts and QOS this user may name, as accounting says. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from provisioner.batch.base import SiteFacts
from provisioner.batch.slurm.arguments import wanted

FORMAT = "Account,QOS"
NO_ACCOUNT = (
    "the user who submits the job has no account at the site, which takes no jobs without one: ask the site for one "
    "(sacctmgr show assoc user=NAME lists them), and submit again a minute later"
)


def accounts_of(text: str, *, qos_counts: bool) -> Mapping[str, frozenset[str]]:
    """Of `sacctmgr -nP show assoc user=NAME format=FORMAT`."""
    found: dict[str, frozenset[str]] = {}
    for line in text.splitlines():
        account, is_one, qos = line.partition("|")
        if is_one and account:
            names = frozenset(filter(None, qos.split(","))) if qos_counts else frozenset()
            found[account] = found.get(account, frozenset()) | names
    return found


def account_problems(arguments: Sequence[str], site: SiteFacts) -> Iterator[str]:
    """Why the site would refuse the account or the QOS of a job."""
    if site.accounts is None:
        return
    if not site.accounts:
        yield NO_ACCOUNT
        return
    account, qos = wanted(arguments, "account", "A"), wanted(arguments, "qos", "q")
    known = {name.lower(): allowed for name, allowed in site.accounts.items()}
    if account and account.lower() not in known:
        yield f'"{account}" is no account that this user may name: {", ".join(sorted(known))}'
        return
    allowed = known[account.lower()] if account else frozenset().union(*known.values())
    if qos and allowed and qos not in allowed:
        whose = f"of account {account} " if account else ""
        yield f'"{qos}" is no QOS {whose}that this user may name: {", ".join(sorted(allowed))}'
