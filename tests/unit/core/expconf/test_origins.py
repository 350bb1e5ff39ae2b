"""Where the values of a configuration come from, and where in the text its problems are."""

from __future__ import annotations

from typing import Any

import pytest

from master.core.expconf import ClusterDefaults, complete, parse
from master.core.expconf.located import LocatedProblem, located
from master.core.expconf.origins import MAX_ITEMS, Origin, Source, layers_of, origins_of, over
from master.core.expconf.policies import Policies, ScopedPolicy, WorkloadType, policy_of
from master.core.expconf.templates import Template, over_template
from windlass.base.errors import InvalidArgument, InvalidConfig, Unsatisfiable

TEXT = """
name: tiny
entrypoint: python3 train.py
searcher: {name: single, metric: loss}
hyperparameters: {lr: 0.5}
labels: [mine]
"""
DEFAULTS = ClusterDefaults(
    task_container_defaults={"image": "site/image", "environment_variables": ["SITE=1"]},
    checkpoint_storage={"type": "shared_fs", "host_path": "/site", "save_trial_best": 2},
)


def told(
    text: str = TEXT,
    *,
    template: dict[str, Any] | None = None,
    policies: tuple[dict[str, Any], ...] = (),
    defaults: ClusterDefaults = DEFAULTS,
) -> dict[str, list[str]]:
    """Path -> who gives it. Of several policies the cluster's is the last."""
    scopes = ("workspace lab", "the cluster")[-len(policies) :]
    held = Policies(
        WorkloadType.EXPERIMENT,
        [ScopedPolicy(*each) for each in zip(scopes, map(policy_of, policies), strict=False)],
    )
    applied = None if template is None else Template(name="base", config=template)
    written = parse(text)
    raw = held.over(over_template(written, applied))
    config = complete(raw, defaults=defaults, seed=1, name="x").to_json()
    layers = layers_of(written, template=applied, policies=held, pool="gpu", defaults=defaults)
    found: dict[str, list[str]] = {}
    for origin in origins_of(config, layers):
        found.setdefault(origin.path, []).append(f"{origin.source} {origin.name}".strip())
    return found


def test_what_nobody_gives_is_a_default() -> None:
    found = told()
    assert found["searcher.metric"] == ["SUBMITTED"]
    assert found["hyperparameters.lr.val"] == ["SUBMITTED"]
    assert found["environment.image.cpu"] == ["POOL gpu"]
    assert found["checkpoint_storage.host_path"] == ["CLUSTER"]
    assert not {"max_restarts", "resources.priority", "reproducibility.experiment_seed"} & {*found}


def test_the_highest_that_gives_a_value_is_told() -> None:
    template = {"max_restarts": 3, "description": "of the template", "labels": ["base"]}
    text = f"{TEXT}max_restarts: 1\n"
    forced = {"invariant_config": {"description": "forced"}}
    found = told(text, template=template, policies=(forced,))
    assert found["max_restarts"] == ["SUBMITTED"]
    assert found["description"] == ["POLICY the cluster"]
    assert found["labels"] == ["SUBMITTED", "TEMPLATE base"]
    both = (forced, {"invariant_config": {"description": "of the cluster"}})
    assert told(policies=both)["description"] == ["POLICY the cluster"]
    assert told(policies=(forced, {"constraints": {}}))["description"] == ["POLICY workspace lab"]


def test_a_bound_that_fills_in_what_is_missing_is_told() -> None:
    bound = {"constraints": {"resources": {"max_slots": 4}, "priority_limit": 60}}
    found = told(policies=(bound,))
    assert found["resources.max_slots"] == ["POLICY the cluster"]
    assert found["resources.priority"] == ["POLICY the cluster"]
    found = told(f"{TEXT}resources: {{max_slots: 2, priority: 70}}\n", policies=(bound,))
    assert found["resources.max_slots"] == found["resources.priority"] == ["SUBMITTED"]


def test_items_of_a_list_may_come_from_several() -> None:
    text = f"{TEXT}environment: {{environment_variables: [MINE=1]}}\n"
    assert told(text)["environment.environment_variables.cpu"] == ["SUBMITTED", "POOL gpu"]
    whole = {"entrypoint": ["python3", "other.py"]}
    assert told(template=whole)["entrypoint"] == ["SUBMITTED"]


def test_a_list_of_many_items_is_the_highest_layers() -> None:
    many = [f"V{n}=1" for n in range(MAX_ITEMS)]
    text = f"{TEXT}environment: {{environment_variables: {many}}}\n"
    assert told(text)["environment.environment_variables.cpu"] == ["SUBMITTED"]


def test_another_kind_of_storage_takes_the_common_keys_alone() -> None:
    text = f"{TEXT}checkpoint_storage: {{type: directory, container_path: /mine}}\n"
    found = told(text)
    assert found["checkpoint_storage.type"] == ["SUBMITTED"]
    assert found["checkpoint_storage.save_trial_best"] == ["CLUSTER"]
    assert "checkpoint_storage.host_path" not in found


def test_a_workspace_goes_before_its_cluster() -> None:
    defaults = ClusterDefaults(
        checkpoint_storage={"type": "shared_fs", "host_path": "/site"},
        workspace_checkpoint_storage={"type": "shared_fs", "host_path": "/lab"},
    )
    assert told(defaults=defaults)["checkpoint_storage.host_path"] == ["WORKSPACE"]


def test_what_a_change_gives_is_no_longer_what_it_was() -> None:
    old = [Origin("a", Source.TEMPLATE, "base"), Origin("b", Source.TEMPLATE, "base")]
    new = [Origin("b", Source.SUBMITTED, "")]
    assert over(new, old) == [old[0], new[0]]


def problems(text: str) -> list[LocatedProblem]:
    with pytest.raises(InvalidConfig) as refused:
        complete(parse(text), defaults=DEFAULTS, seed=1, name="x")
    return located(refused.value, text)


def test_a_problem_has_the_line_of_its_key() -> None:
    (one,) = problems(f"{TEXT}resources:\n  slots_per_trial: many\n")
    assert (one.path, one.line) == ("resources.slots_per_trial", 8)
    assert one.message == "expected integer or null, but got string"


def test_an_unknown_key_has_its_own_line() -> None:
    (one,) = problems(f"{TEXT}resources:\n  max_slots: 2\n  slots_per_trail: 1\n")
    assert (one.path, one.line) == ("resources.slots_per_trail", 9)
    assert 'did you mean "slots_per_trial"?' in one.message


def test_what_is_missing_is_told_at_what_it_is_missing_in() -> None:
    (one,) = problems(TEXT.replace("{name: single, metric: loss}", "{name: single}"))
    assert (one.path, one.line) == ("searcher", 4)


def test_a_problem_in_a_list_has_the_line_of_its_item() -> None:
    mounts = ["{host_path: /a, container_path: b}", "{host_path: 1, container_path: c}"]
    (one,) = problems(f"{TEXT}bind_mounts:\n" + "".join(f"  - {mount}\n" for mount in mounts))
    assert (one.path, one.line) == ("bind_mounts[1].host_path", 9)


def test_a_text_that_cannot_be_read_has_a_line() -> None:
    (one,) = problems("name: tiny\nentrypoint: [\n")
    assert (one.path, one.line) == ("", 3)


def test_a_problem_of_a_template_has_no_line() -> None:
    error = InvalidConfig(["<config>.max_restarts: must be >= 0"])
    assert located(error, TEXT) == [LocatedProblem("max_restarts", "must be >= 0", None)]


def test_what_a_policy_or_a_pool_refuses_has_a_key() -> None:
    text = f"{TEXT}resources: {{slots_per_trial: 9, priority: 5}}\n"
    limits = {"constraints": {"resources": {"max_slots": 4}, "priority_limit": 40}}
    held = Policies(WorkloadType.EXPERIMENT, [ScopedPolicy("the cluster", policy_of(limits))])
    for asked, key in (
        ({"slots": 9, "priority": None}, "slots_per_trial"),
        ({"slots": 1, "priority": 5}, "priority"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            held.require(max_slots=None, **asked)  # type: ignore[arg-type]
        (one,) = located(refused.value, text)
        assert (one.path, one.line) == (f"resources.{key}", 7)
    (one,) = located(Unsatisfiable("no agent has 9 slots"), text)
    assert (one.path, one.line) == ("resources.slots_per_trial", 7)
    assert located(InvalidArgument("no"), text) == [LocatedProblem("", "no", None)]
