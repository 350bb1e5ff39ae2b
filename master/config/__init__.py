"""master.yaml: `load` it, read `MasterConfig`, show it `masked`."""

from master.config.load import load
from master.config.masking import masked
from master.config.model import MasterConfig
from master.config.pools import PoolSection, ResolvedPool
from master.config.providers import EmbeddedSection, ProviderSection

__all__ = [
    "EmbeddedSection",
    "MasterConfig",
    "PoolSection",
    "ProviderSection",
    "ResolvedPool",
    "load",
    "masked",
]
