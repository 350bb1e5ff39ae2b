"""User data of launches of one machine each on a real master, as a provider hands it to its cloud."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.user_data import PATIENCE_S, UserDataInputs, user_data
from master.auth.join_tokens import JoinTokenSigner, read_secret
from rm_backends.ports import JoinGrant, JoinKind
from tests.certificates import Authority
from tests.real_cluster import RealCluster

UserData: TypeAlias = Callable[[str], str]
"""By the name of the machine."""


def user_data_of(
    cluster: RealCluster, authority: Authority, *, patience_s: int = PATIENCE_S
) -> UserData:
    """`patience_s`: how long a machine asks a master that does not answer."""
    (secret,) = [path for path in cluster.data_dir.iterdir() if "secret" in path.name]
    signer = JoinTokenSigner(read_secret(secret))

    def made(machine: str) -> str:
        grant = JoinGrant(
            kind=JoinKind.LAUNCH,
            pool="default",
            id=f"launch-of-{machine}",
            names=frozenset({machine}),
            agents=1,
            expires=datetime.now(UTC) + timedelta(hours=1),
        )
        return user_data(
            UserDataInputs(
                cloud=Cloud.AWS,
                cluster_id="c1",
                pool="default",
                intent_id=grant.id,
                master_url=cluster.url,
                launch_token=signer.made_for(grant),
                master_cert=authority.root.read_text(),
                patience_s=patience_s,
            )
        )

    return made
