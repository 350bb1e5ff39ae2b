"""What is secret in a configuration, and references to what is the master's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.core.expconf import ClusterDefaults
from master.core.expconf.references import PoolSecrets, take_secrets
from master.core.expconf.secrets import MASK, SECRET_KEYS, holds_mask, masked, replaced


@pytest.mark.parametrize(
    ("document", "shown"),
    [
        ({"password": "x"}, {"password": MASK}),
        ({"password": 7}, {"password": MASK}),
        ({"password": ""}, {"password": ""}),
        ({"password": None}, {"password": None}),
        ({"auth": {"password": "x", "user": "u"}}, {"auth": {"password": MASK, "user": "u"}}),
        ({"a": [{"secret_key": "x"}]}, {"a": [{"secret_key": MASK}]}),
        (
            {"environment_variables": ["A=1", "B=", "C"]},
            {"environment_variables": [f"A={MASK}", "B=", "C"]},
        ),
        (
            {"environment_variables": {"cpu": ["A=1=2"]}},
            {"environment_variables": {"cpu": [f"A={MASK}"]}},
        ),
        ({"env": [{"name": "A", "value": "x"}]}, {"env": [{"name": "A", "value": MASK}]}),
        ({"env": {"type": "const", "val": "x"}}, {"env": {"type": "const", "val": "x"}}),
        ({"u": "s3://a:b@c/d"}, {"u": f"s3://a:{MASK}@c/d"}),
        ({"u": "https://c/d?sv=1&sig=x%3d&e=2"}, {"u": f"https://c/d?sv=1&sig={MASK}&e=2"}),
        ({"u": "sig=x, a:b@c"}, {"u": "sig=x, a:b@c"}),
        (
            {"environment_variables": "odd", "env": "odd"},
            {"environment_variables": "odd", "env": "odd"},
        ),
    ],
)
def test_secrets_are_masked_and_the_rest_stays(
    document: dict[str, Any], shown: dict[str, Any]
) -> None:
    assert masked(document) == shown
    assert masked(shown) == shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted(SECRET_KEYS))
            | st.sampled_from(["environment_variables", "env", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["password", "environment_variables", "a"]), JSON, max_size=3)
)
def test_any_document_can_be_walked(document: dict[str, Any]) -> None:
    assert replaced(document, lambda secret: secret) == document
    assert masked(document).keys() == document.keys()


def test_a_mask_is_found_where_a_secret_would_be() -> None:
    assert holds_mask({"a": {"password": MASK}})
    assert holds_mask({"environment_variables": [f"A={MASK}"]})
    assert not holds_mask({"labels": [MASK], "name": MASK, "password": "x"})


def test_what_is_taken_comes_back() -> None:
    containers = {"environment_variables": ["A=1", "B"], "registry_auth": {"password": "p"}}
    storage = {"type": "azure", "container": "c", "connection_string": "cs"}
    given = ClusterDefaults(task_container_defaults=containers, checkpoint_storage=storage)
    taken, secrets = take_secrets(given)
    shown = {"environment": dict(taken.task_container_defaults)}
    shown["checkpoint_storage"] = dict(taken.checkpoint_storage)
    assert {"1", "p", "cs"} & set(str(shown).replace("=", "'").split("'")) == set()
    back = secrets.resolved(shown)
    assert back["environment"]["environment_variables"]["cpu"] == ["A=1", "B"]
    assert back["environment"]["registry_auth"] == {
        "password": "p",
        "serveraddress": "docker.io",
    }
    assert back["checkpoint_storage"] == storage
    assert secrets.storage_referring(storage) == shown["checkpoint_storage"]
    assert "cs" not in repr(secrets)


def test_what_the_file_has_no_more() -> None:
    """A variable is left out, a key of S3 becomes the machine's right, and any other reference tells what it was."""
    _, now = take_secrets(ClusterDefaults(checkpoint_storage={"type": "s3", "bucket": "b"}))
    gone = "${master.yaml:environment_variables.cpu.A}"
    registry = "${master.yaml:registry_auth.password}"
    document = {
        "environment_variables": {"cpu": [f"A={gone}", "B=1"]},
        "registry_auth": {"password": registry},
        "checkpoint_storage": {"secret_key": "${master.yaml:checkpoint_storage.secret_key}"},
    }
    assert now.resolved(document) == {
        "environment_variables": {"cpu": ["B=1"]},
        "registry_auth": {"password": registry},
        "checkpoint_storage": {"secret_key": None},
    }


def test_without_secrets_nothing_changes() -> None:
    assert PoolSecrets().resolved({"password": "x"}) == {"password": "x"}
