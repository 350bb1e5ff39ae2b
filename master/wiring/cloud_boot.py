"""What the machines of clouds are told when they boot: where the master is, and the token of their launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_bootstrap.agent.metadata.kinds import Cloud
from agent_bootstrap.scripts.user_data import UserDataInputs, user_data
from master.wiring.launch_tokens import LaunchTokens
from provisioner.providers.base import LaunchIntent
from provisioner.sections.cloud import CloudSection, PoolMachines, SectionT
from windlass.base.formats.json_types import JsonMapping
from windlass.base.tls.trust import read_certificates

_LONGEST: Mapping[str, Any] = {
    "cloud": Cloud.AWS,
    "cluster_id": "c" * 36,
    "intent_id": "i" * 36,
    "launch_token": "t" * 700,
}
"""What is known only at a launch, and no longer than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudBoot:
    """Of all clouds that this master buys from."""

    master_url: str
    """Where machines reach this master, unless their pool says otherwise."""
    master_cert: Path | None
    """A file with the certificate that it shows; None: plain HTTP."""
    tokens: LaunchTokens

    def told(self, bought: Sequence[PoolMachines[SectionT]]) -> Sequence[PoolMachines[SectionT]]:
        """With what user data is made of, beside the intent. Raises InvalidConfig where no machine could be told so."""
        return [replace(each, boot=self._settings(each.section, each.pool)) for each in bought]

    def _settings(self, section: CloudSection, pool: str) -> JsonMapping:
        # A master that signs its certificate itself keeps its key in the same file.
        cert = "" if self.master_cert is None else read_certificates(self.master_cert, "master")
        told = {
            "master_url": section.master_url or self.master_url,
            "master_cert": cert,
            "master_cert_name": section.master_cert_name,
        }
        longest: dict[str, Any] = {**_LONGEST, **told}
        user_data(UserDataInputs(pool=pool, **longest))
        return told

    def user_data(self, cloud: Cloud, intent: LaunchIntent, names: Sequence[str] = ()) -> str:
        """Made of the intent alone. `names`: of its machines, where they are known before the call."""
        settings = intent.request["boot"]
        return user_data(
            UserDataInputs(
                cloud=cloud,
                cluster_id=intent.cluster_id,
                pool=intent.pool,
                intent_id=intent.intent_id,
                launch_token=self.tokens(intent, names),
                **settings,
            )
        )
