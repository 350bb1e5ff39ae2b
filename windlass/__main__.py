"""`python -m windlass` is the command `windlass`."""

from windlass.cli.main import run

run()
