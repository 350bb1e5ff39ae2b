"""master.yaml: `load` it, read `MasterConfig`, show it `masked`."""

from master.config.load import load
from master.config.masking import masked
from master.config.model import MasterConfig
from provisioner.sections.pools import PoolSection, ResolvedPool
from provisioner.sections.providers import EmbeddedSection, ProviderSection

__all__ = [
    "EmbeddedSection",
    "MasterConfig",
    "PoolSection",
    "ProviderSection",
    "ResolvedPool",
    "load",
    "masked",
]
