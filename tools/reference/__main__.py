"""`python -m tools.reference`: write the pages."""

from __future__ import annotations

from pathlib import Path

from agent_bootstrap.agent.options import AgentOptions
from master.config import MasterConfig
from master.core.expconf import ExperimentConfig, TaskContainerDefaults
from master.core.expconf.kinds import CommandConfig, GenericConfig
from tools.reference.commands import commands_page
from tools.reference.configuration import configuration_page
from tools.reference.errors import errors_page
from tools.reference.roles import roles_page

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
GENERATED = "<!-- Generated from the code by `make docs`: change it there. -->\n"


def pages() -> dict[str, str]:
    """File name -> content."""
    content = {
        "experiment.md": configuration_page(
            "Experiment configuration",
            "What `det experiment create` takes. Unknown keys are refused; null is the same as absent.",
            ExperimentConfig,
        ),
        "command.md": configuration_page(
            "Command configuration",
            "What `det command run --config-file` takes. Unknown keys are refused; null is the same as absent.",
            CommandConfig,
        ),
        "generic-task.md": configuration_page(
            "Generic task configuration",
            "What `det task create` takes. Unknown keys are refused; null is the same as absent.",
            GenericConfig,
        ),
        "master.md": configuration_page(
            "master.yaml",
            "Read at the start of the master. Unknown keys are refused; null is the same as absent. "
            "[task_container_defaults](task-container-defaults.md) has a page of its own.",
            MasterConfig,
        ),
        "task-container-defaults.md": configuration_page(
            "task_container_defaults",
            "The section of master.yaml, and of each of its pools, that lies under every task's configuration.",
            TaskContainerDefaults,
        ),
        "agent.md": configuration_page(
            "agent.yaml",
            "Read by `windlass agent run`. Each key may also be an option or a variable `DET_<KEY>`.",
            AgentOptions,
        ),
        "commands.md": commands_page(),
        "errors.md": errors_page(),
        "roles.md": roles_page(),
    }
    return {name: GENERATED + text.rstrip() + "\n" for name, text in content.items()}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
