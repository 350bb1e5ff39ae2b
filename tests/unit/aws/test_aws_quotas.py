"""Quotas help, and launches need none of them: what cannot be read holds up nothing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from provisioner.providers.aws import catalogue
from provisioner.providers.aws.client import AwsClient, AwsError
from provisioner.providers.aws.names import quota_code
from tests.fakes.pool_machines import aws_machines

WANTED = [
    aws_machines(instance_type="p4d.24xlarge", markets=["on_demand", "spot"]).section,
    aws_machines(instance_type="c5.large").section,
]
CODES = sorted(
    [
        quota_code("P", spot=False),
        quota_code("P", spot=True),
        quota_code("Standard", spot=False),
    ]
)


class ServiceQuotas:
    """Answers for the first code, refuses the second, and says nothing of the third."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        self.asked.append(parameters["QuotaCode"])
        if len(self.asked) == 2:
            raise AwsError("AccessDeniedException", "not for you")
        if len(self.asked) == 3:
            await asyncio.Event().wait()
        return {"Quota": {"Value": 64}}


async def test_quotas_that_are_refused_or_not_answered_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue, "QUOTAS_WITHIN_S", 0.5)
    service = ServiceQuotas()
    found = await catalogue._quotas(cast("AwsClient", service), WANTED)
    assert service.asked == CODES
    assert found == {CODES[0]: 64.0}
