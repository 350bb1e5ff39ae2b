"""What `test_generated_client.py` runs with the generated package beside it: `python calls.py URL PASSWORD`."""

from __future__ import annotations

import sys

from generated import AuthenticatedClient, Client
from generated.api.commands import (
    commands_get,
    commands_kill,
    commands_launch,
    commands_list_commands,
)
from generated.api.experiments import experiments_create, experiments_get
from generated.api.resource_pools import resource_pools_list_pools
from generated.api.session import session_login
from generated.api.templates import (
    templates_create,
    templates_get,
    templates_list_templates,
    templates_remove,
)
from generated.models import (
    CommandsListCommandsSortby,
    CreateExperiment,
    ExperimentState,
    LaunchTask,
    LaunchTaskConfig,
    Login,
    PoolType,
    PostTemplate,
    PostTemplateConfig,
    SchedulerType,
    TaskState,
)

EXPERIMENT = """
name: generated
entrypoint: "true"
searcher: {name: single, metric: loss, max_length: 1}
"""


def main(url: str, password: str) -> None:
    login = session_login.sync(
        client=Client(base_url=url), body=Login(username="determined", password=password)
    )
    client = AuthenticatedClient(base_url=url, token=login.token)

    (pool,) = resource_pools_list_pools.sync(client=client).resource_pools
    assert pool.type_ is PoolType.RESOURCE_POOL_TYPE_STATIC, pool
    assert pool.scheduler_type is SchedulerType.SCHEDULER_TYPE_FAIR_SHARE, pool

    config = LaunchTaskConfig.from_dict({"entrypoint": ["sleep", "600"]})
    launched = commands_launch.sync(client=client, body=LaunchTask(config=config)).command
    found = commands_get.sync(launched.id, client=client).command
    assert found.state in set(TaskState) - {TaskState.STATE_TERMINATED}, found
    assert found.user_id == login.user.id, found
    listed = commands_list_commands.sync(
        client=client, sort_by=CommandsListCommandsSortby.SORT_BY_START_TIME
    )
    assert [command.id for command in listed.commands] == [launched.id], listed

    killed = commands_kill.sync(launched.id, client=client).command
    assert killed.state in (TaskState.STATE_TERMINATING, TaskState.STATE_TERMINATED), killed

    created = experiments_create.sync(client=client, body=CreateExperiment(config=EXPERIMENT))
    experiment = experiments_get.sync(created.experiment.id, client=client).experiment
    assert (experiment.name, experiment.state) == ("generated", ExperimentState.STATE_PAUSED)

    config = PostTemplateConfig.from_dict({"max_restarts": 0})
    templates_create.sync("team/small", client=client, body=PostTemplate(config=config))
    template = templates_get.sync("team/small", client=client).template
    assert template.config.to_dict() == {"max_restarts": 0}, template
    (listed,) = templates_list_templates.sync(client=client).templates
    assert listed.name == "team/small", listed
    templates_remove.sync("team/small", client=client)

    missing = experiments_get.sync(4711, client=client)
    assert missing.error.reason == "NotFound", missing


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
