"""Sections of providers: every mistake is named at once, with what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.config.load import load
from windlass.base.errors import InvalidConfig

MISTAKES = """
resource_pools:
  - pool_name: gpu
    providers:
      - {type: embedded, nam: north, slots_per_instance: 0, usd_per_hour: -1, available: -2, boot_tim: 3s}
      - {type: embedded, name: ../x, boot_time: soon, max_instances: 0, min_instance: 1, max_idle_agent_period: -5m}
      - {type: embeded}
"""
AT = "<master.yaml>.resource_pools[0].providers"


def test_ten_mistakes_and_more_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "master.yaml"
    file.write_text(MISTAKES)
    with pytest.raises(InvalidConfig) as refused:
        load(file)
    assert list(refused.value.problems) == [
        f"{AT}[0].available: must be >= 0 but found -2",
        f"{AT}[0].slots_per_instance: must be >= 1 but found 0",
        f"{AT}[0].usd_per_hour: must be >= 0 but found -1",
        f'{AT}[0]: additionalProperties "boot_tim" not allowed; did you mean "boot_time"?',
        f'{AT}[0]: additionalProperties "nam" not allowed; did you mean "name"?',
        f'{AT}[1].boot_time: "soon" is not a duration: write "90s", "5m" or "1h30m"',
        f"{AT}[1].max_idle_agent_period: must be > 0s but found -5m",
        f"{AT}[1].max_instances: must be >= 1 but found 0",
        f"{AT}[1].name: does not match pattern ^[A-Za-z0-9][A-Za-z0-9._-]*$",
        f'{AT}[1]: additionalProperties "min_instance" not allowed; did you mean "min_instances"?',
        f'{AT}[2]: provider type "embeded" is unknown: did you mean "embedded"?',
    ]
