"""The providers that the contract suite runs on, by name. A new one joins with one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

from tests.contract.providers.aws import aws
from tests.contract.providers.base import ProviderCase
from tests.contract.providers.embedded import embedded_case
from tests.contract.providers.gcp import gcp_case
from tests.contract.providers.pilots import pilots
from tests.contract.providers.simulated import simulated

MakeCase: TypeAlias = Callable[[Path], AbstractAsyncContextManager[ProviderCase]]
"""(an empty directory) -> a case to enter; leaving it ends whatever its provider has running."""

CASES: Mapping[str, MakeCase] = {
    "simulated": simulated,
    "embedded": embedded_case,
    "aws": aws,
    "gcp": gcp_case,
    "pilots": pilots,
}
