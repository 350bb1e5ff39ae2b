"""`windlass hpc`: its verbs come with the extra `hpc`."""

from __future__ import annotations

from windlass.cli.groups import OperatorGroup, command_group


class HpcGroup(OperatorGroup):
    entry_point = "hpc"


app = command_group(cls=HpcGroup)
