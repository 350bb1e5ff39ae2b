"""Who an agent may be: the credential it shows, and what its join token allows. Pure.

An agent makes its credential itself, once, and keeps it in its work_dir. The first hello with a join token binds it to
the agent's id, pool and instance; from then on the credential is needed, and enough. So a hello whose answer was lost
can be repeated, and what is read from user data or a shared file later is of no use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from agent_bootstrap.protocol import Hello, JoinRefused
from provisioner.providers.images import is_bake
from rm_backends.ports import AgentRecord, JoinGrant, JoinKind, JoinUse, LaunchedMachines


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a connection shows of itself before it says anything."""

    grant: JoinGrant | None = None
    """What its join token allows; None: it has none that is good for the pool."""
    credential_hash: str | None = None
    """None: an agent before 0.2, which has no credential."""

    def is_of(self, record: AgentRecord | None) -> bool:
        """It shows the credential of that agent."""
        return (
            record is not None
            and self.credential_hash is not None
            and self.credential_hash == record.credential_hash
        )


def credential_hash(credential: str) -> str | None:
    """A credential is 256 random bits: it needs no salt, and only this is kept of it."""
    return hashlib.sha256(credential.encode()).hexdigest() if credential else None


def join_refusal(
    hello: Hello,
    proof: Proof,
    known: AgentRecord | None,
    *,
    uses: Mapping[str, str],
    launched: bool,
    now: datetime,
) -> str | None:
    """Why this connection may not be the agent it says it is.

    `uses`: who has spent its join token. `launched`: a provider has a machine of that name.
    """
    if proof.grant is not None and is_bake(proof.grant.id):
        return f"'{hello.agent_id}' is the machine of an image: it runs no agent"
    known_as = known.instance_id if known is not None else None
    if hello.instance_id not in (None, hello.agent_id, known_as):
        return (
            f"the agent of instance '{hello.instance_id}' must be called so, not '{hello.agent_id}'"
        )
    if is_as_before(hello, proof, known):
        return None
    if proof.is_of(known) and known is not None and proof.grant is None:
        return (
            f"agent '{known.agent_id}' joined pool '{known.pool}'"
            + (f" as instance '{known.instance_id}'" if known.instance_id else "")
            + ": it needs a join token to be anything else"
        )
    if proof.grant is None:
        return f"no join token for pool '{hello.pool}', and not the credential of agent '{hello.agent_id}'"
    if launched and known is None and _is_for_anybody(proof.grant):
        return (
            f"'{hello.agent_id}' is a machine of a provider: it joins with the token of its launch"
        )
    return _grant_refusal(proof.grant, hello, proof.credential_hash, uses, now) or (
        _identity_refusal(proof, hello, known)
    )


def launch_refusal(grant: JoinGrant, name: str, machines: LaunchedMachines) -> JoinRefused | None:
    """Why the token of a launch is not for the machine of that name, where the token does not name its machines.

    A provider that tells the names of machines only when they exist may be slower than their boot: they ask again.
    """
    if grant.kind is not JoinKind.LAUNCH or grant.names:
        return None
    made = machines.launched_by(grant.id)
    if made is None:
        reason = f"the provider has not said yet which machines launch {grant.id} made"
        return JoinRefused(reason=reason, retry=True)
    if name not in made:
        return JoinRefused(
            reason=f"'{name}' is no machine of launch {grant.id}, which the join token is for"
        )
    return None


def boot_refusal(
    grant: JoinGrant | None,
    name: str,
    machines: LaunchedMachines,
    *,
    uses: Collection[str],
    now: datetime,
) -> JoinRefused | None:
    """Why a machine of that name may not fetch what it is set up with. `uses`: the agents that joined with its token.

    A token that has been spent for a machine is of no use to whoever reads it there later.
    """
    if grant is None or grant.kind is not JoinKind.LAUNCH:
        return JoinRefused(reason="this is not the token of a launch of this master")
    if reason := _validity_refusal(grant, name, now):
        return JoinRefused(reason=reason)
    if name in uses:
        return JoinRefused(reason=f"'{name}' has joined already: the token of its launch is spent")
    return launch_refusal(grant, name, machines)


def _validity_refusal(grant: JoinGrant, name: str, now: datetime) -> str | None:
    if grant.revoked is not None:
        return f"the join token was revoked at {_shown(grant.revoked)}"
    if grant.expires is not None and now >= grant.expires:
        return f"the join token expired at {_shown(grant.expires)}"
    if grant.names and name not in grant.names:
        return f"the join token is not for agent '{name}'{_another(grant)}"
    return None


def _another(grant: JoinGrant) -> str:
    """The way out."""
    what = f"it is of {grant.kind} {grant.id} alone, and " if grant.kind is JoinKind.JOB else ""
    return f": {what}an agent of your own joins with windlass master join-token create {grant.pool}"


def _is_for_anybody(grant: JoinGrant) -> bool:
    return grant.kind is JoinKind.POOL and not grant.names


def is_as_before(hello: Hello, proof: Proof, known: AgentRecord | None) -> bool:
    """Its credential is enough: whatever token it shows is not looked at."""
    same = known is not None and (hello.pool, hello.instance_id) == (known.pool, known.instance_id)
    return same and proof.is_of(known)


def spent_by(
    hello: Hello, proof: Proof, known: AgentRecord | None, now: datetime
) -> JoinUse | None:
    """What is to be remembered of the join token; None: it is never spent, or was not needed."""
    if proof.grant is None or not proof.grant.id or proof.credential_hash is None:
        return None
    if is_as_before(hello, proof, known):
        return None
    return JoinUse(
        token_id=proof.grant.id,
        agent_id=hello.agent_id,
        credential_hash=proof.credential_hash,
        expires=proof.grant.expires,
        at=now,
    )


def _grant_refusal(
    grant: JoinGrant, hello: Hello, shown: str | None, uses: Mapping[str, str], now: datetime
) -> str | None:
    if reason := _validity_refusal(grant, hello.agent_id, now):
        return reason
    if grant.kind is not JoinKind.POOL and hello.instance_id != hello.agent_id:
        return f"the join token of a {grant.kind} is for agents that are called as their instances"
    if not grant.id:
        return None
    if shown is None:
        return "a join token that can be spent needs an agent with a credential: update the agent"
    if _is_for_many(grant):
        return None
    if uses.get(hello.agent_id, shown) != shown:
        return f"the join token was spent by agent '{hello.agent_id}' already{_another(grant)}"
    if grant.agents is not None and len(uses.keys() | {hello.agent_id}) > grant.agents:
        by = f" by agent '{next(iter(uses))}'" if grant.agents == 1 else ""
        many = "" if by else f", {grant.agents} agents joined with it"
        return f"the join token was spent{by}{many}{_another(grant)}"
    return None


def _is_for_many(grant: JoinGrant) -> bool:
    """Any number of agents, each as often as it likes: a machine that was forgotten may come back with it."""
    return grant.kind is JoinKind.POOL and not grant.names and grant.agents is None


def _shown(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def _identity_refusal(proof: Proof, hello: Hello, known: AgentRecord | None) -> str | None:
    """An agent that has a credential is taken over only with it, or with a token made for that agent."""
    if known is None or known.credential_hash is None or proof.is_of(known):
        return None
    if proof.grant is not None and hello.agent_id in proof.grant.names:
        return None
    return (
        f"agent '{hello.agent_id}' has another credential (it is in its work_dir). If it is lost, make a token for it: "
        f"windlass master join-token create {hello.pool} --agent {hello.agent_id}"
    )
