"""`python -m agent_bootstrap.agent`: the same as `windlass agent run`, where no console script can be relied upon."""

import typer

from agent_bootstrap.agent.cli import run

if __name__ == "__main__":
    typer.run(run)
