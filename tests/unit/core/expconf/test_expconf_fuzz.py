"""Configurations by the thousand, of a grammar that knows what hurts: each is valid or refused, and soon."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.core.expconf import ClusterDefaults, complete, parse
from master.core.searcher.limits import check_limits
from master.experiments.submission.admission import search_of
from tests.examples import examples
from windlass.base.errors import InvalidConfig

CPU_S = 3.0
"""Of this thread, for a document of some hundred characters: others' work does not count."""

KEYS = [
    "name",
    "description",
    "labels",
    "data",
    "entrypoint",
    "searcher",
    "hyperparameters",
    "resources",
    "environment",
    "log_policies",
    "bind_mounts",
    "checkpoint_storage",
    "reproducibility",
    "max_restarts",
    "version",
    "type",
    "minval",
    "maxval",
    "count",
    "base",
    "vals",
    "val",
    "metric",
    "max_trials",
    "max_concurrent_trials",
    "num_rungs",
    "max_time",
    "time_metric",
    "divisor",
    "mode",
    "bracket_rungs",
    "slots_per_trial",
    "priority",
    "weight",
    "shm_size",
    "environment_variables",
    "proxy_ports",
    "pattern",
    "action",
    "host_path",
    "container_path",
]
NASTY = (
    "",
    "~",
    "{}",
    "[]",
    "-1",
    "0x" + "f" * 40,
    "0o7777777777777777777777777",
    "1e400",
    "-.inf",
    ".nan",
    "9223372036854775808",
    "1" * 5000,
    "12:30:45",
    "2020-01-01T00:00:00Z",
    "yes",
    "!!binary aGk=",
    "!!int x",
    "!!float 1:2",
    "!!python/object:os.system x",
    "! quoted",
    '"\\0"',
    '"\\ud800"',
    '"\\U0010ffff"',
    "|\n  block\n  text",
    ">-\n  folded",
    "'it''s'",
    "\t",
    "*a",
    "*b",
    "&a",
    "&a x",
    "<<",
    "(a+)+$",
    "(?=x)",
    "\x00",
    "\x85",
    "\ud800",
    "# comment",
    "%YAML 1.1",
    "---",
    "...",
)
NAMES = (
    "single",
    "random",
    "grid",
    "async_halving",
    "adaptive_asha",
    "int",
    "double",
    "log",
    "const",
)

keys = st.sampled_from(KEYS) | st.sampled_from(("<<", "<<", "? [a]", "1", "true", "~", "!!null x"))
scalars = (
    st.sampled_from(NASTY)
    | st.sampled_from(NAMES)
    | st.integers(-(2**70), 2**70).map(str)
    | st.floats().map(repr)
    | st.text(max_size=8).map(json.dumps)
    | st.text(max_size=8)
)


def _flow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    anchors = st.sampled_from(("", "", "&a ", "&b ", "!!map ", "!!seq "))
    pairs = st.tuples(keys, inner).map(": ".join)
    maps = st.lists(pairs, max_size=5).map(lambda items: "{" + ", ".join(items) + "}")
    lists = st.lists(inner, max_size=5).map(lambda items: "[" + ", ".join(items) + "]")
    return st.tuples(anchors, maps | lists).map("".join)


values = st.recursive(scalars, _flow, max_leaves=12)
searchers = st.tuples(
    st.sampled_from(NAMES[:5]), st.lists(st.tuples(keys, values).map(": ".join), max_size=5)
).map(lambda found: "searcher: {" + ", ".join((f"name: {found[0]}", "metric: m", *found[1])) + "}")
lines = st.tuples(keys, values).map(": ".join) | searchers
documents = (
    st.lists(lines, max_size=8).map("\n".join)
    | values
    | st.lists(lines, max_size=6).map(
        lambda found: "\n".join(
            (*found, "entrypoint: x", "checkpoint_storage: {type: shared_fs, host_path: /x}")
        )
    )
    | st.text(max_size=60)
)


def problems_of(text: str) -> tuple[str, ...]:
    """Of the path that an experiment's configuration takes; anything but InvalidConfig is a fault."""
    try:
        config = complete(parse(text), defaults=ClusterDefaults(), seed=1, name="n")
        check_limits(search_of(config))
        json.dumps(config.to_json(), allow_nan=False).encode()
    except InvalidConfig as error:
        return error.problems or ("refused without a reason",)
    return ()


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(documents)
def test_each_configuration_is_valid_or_refused_and_soon(text: str) -> None:
    began = time.thread_time()
    problems = problems_of(text)
    assert time.thread_time() - began < CPU_S
    assert all(problem.isprintable() for problem in problems), problems
