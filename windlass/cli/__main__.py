"""So that `python -m windlass.cli` works where no script is on PATH."""

from windlass.cli.main import run

run()
