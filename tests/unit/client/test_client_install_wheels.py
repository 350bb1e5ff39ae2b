"""The wheel of this installation that `windlass agent install` copies to machines."""

from __future__ import annotations

import io
import zipfile

import pytest

from windlass.install.wheels import own_wheel

SCRIPT = "agent_bootstrap/supervisor/image_entry.sh"


def test_programs_can_be_executed_where_the_wheel_is_installed() -> None:
    """pip gives the right to execute to what has it in the wheel."""
    with zipfile.ZipFile(io.BytesIO(own_wheel().content)) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert modes[SCRIPT] == 0o100755
    assert modes["windlass/__init__.py"] == 0o100644


@pytest.mark.slow
def test_the_same_content_is_the_same_wheel() -> None:
    assert own_wheel().digest == own_wheel().digest
