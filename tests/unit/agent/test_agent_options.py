"""Options: which layer wins, and what a wrong one is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agent_bootstrap.agent import cli
from agent_bootstrap.agent.connection.websocket import agents_url, shared_address
from agent_bootstrap.agent.daemon import AgentEnd
from agent_bootstrap.agent.machine import AgentMachine
from agent_bootstrap.agent.membership.announcement import announced
from agent_bootstrap.agent.option_layers import load_options
from agent_bootstrap.agent.options import AgentOptions, parse_options
from agent_bootstrap.agent.slots import Hardware
from agent_bootstrap.container_options import ContainerLimits, ContainerOptions
from agent_bootstrap.protocol import ContainerSpec
from tests.fakes.fake_runtime import FakeRuntime
from windlass.base.errors import InvalidConfig


def write(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_flags_beat_variables_beat_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "master_host: file\nmaster_port: 1\nagent_id: file\nresource_pool: file")
    environ = {"DET_AGENT_ID": "env", "DET_MASTER": "http://env:2", "HOME": "/x"}
    options = load_options(path, {"agent_id": "flag"}, environ).options
    assert (options.agent_id, options.resource_pool, options.url) == (
        "flag",
        "file",
        "http://env:2",
    )


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"master_host": "m"}, "http://m:80"),
        ({"master_host": "m", "master_port": 8080}, "http://m:8080"),
        ({"master_host": "m", "security": {"tls": {"enabled": True}}}, "https://m:443"),
        ({"master_url": "http://m:8080/"}, "http://m:8080"),
    ],
)
def test_where_the_master_is(settings: dict[str, object], url: str) -> None:
    assert parse_options(settings).url == url


def test_tasks_may_reach_the_master_elsewhere() -> None:
    options = parse_options({"master_url": "http://m:8080", "container_master_host": "inner"})
    assert options.container_url == "http://inner:8080"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"master_hots": "m"}, 'master_hots: unknown key, did you mean "master_host"?'),
        (
            {"master_host": "m", "security": {"tls": {"skipverify": True}}},
            'security.tls.skipverify: unknown key, did you mean "skip_verify"?',
        ),
        ({}, "where is the master?"),
        ({"master_url": "m:8080"}, '"m:8080" is not a URL of a master'),
        ({"master_host": "m", "agent_id": "a b"}, "agent_id"),
        ({"master_host": "m", "slot_type": "tpu"}, "slot_type"),
        ({"master_host": "m", "artificial_slots": -1}, "artificial_slots"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidConfig, match=r".") as caught:
        parse_options(settings)
    assert any(told in problem for problem in caught.value.problems)


def test_labels_come_from_flags_variables_or_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "master_host: m\nlabel: [rack=a12, loud, rack=a12]")
    assert load_options(path).options.label == ("rack=a12", "loud")
    environ = {"DET_LABEL": "rack=b1, gpu@home,"}
    assert load_options(path, {}, environ).options.label == ("rack=b1", "gpu@home")
    assert load_options(path, {"label": ["x"]}, environ).options.label == ("x",)
    assert load_options(write(tmp_path, 'master_host: m\nlabel: ""')).options.label == ()


def test_each_label_is_one_option_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[AgentOptions] = []

    def run_agent(options: AgentOptions) -> AgentEnd:
        given.append(options)
        return AgentEnd(reason="stopped")

    monkeypatch.setattr(cli, "run_agent", run_agent)
    run = ["run", "--master", "http://m:1", "--label", "rack=a12", "--label", "loud"]
    assert CliRunner().invoke(cli.app, run).exit_code == 0
    assert CliRunner().invoke(cli.app, run[:3], env={"DET_LABEL": "quiet"}).exit_code == 0
    assert [options.label for options in given] == [("rack=a12", "loud"), ("quiet",)]
    refused = CliRunner().invoke(cli.app, [*run, "--label", "a b"])
    assert (refused.exit_code, len(given)) == (2, 2)
    assert 'label: "a b" is not a label: write a word or key=value' in refused.output


@pytest.mark.parametrize("label", ["a b", "=x", ["ok", "a,b"], ["x" * 129], 7, {"rack": "a"}])
def test_labels_are_words_or_key_and_value(label: object) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_options({"master_host": "m", "label": label})
    assert caught.value.problems[0].startswith("label")


def test_keys_of_other_agents_files_are_accepted() -> None:
    options = parse_options({"master_host": "m", "agent_reconnect_attempts": 3, "slot_type": "gpu"})
    assert options.slot_type == "cuda"


@pytest.mark.parametrize("text", ["- a list", "a: [", "join_token: secret\nmaster_host: m"])
def test_unusable_files_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        load_options(write(tmp_path, text, 0o644))
    assert "secret" not in str(caught.value).replace("holds a secret", "")


def test_a_token_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    token.chmod(0o644)
    options = parse_options({"master_host": "m", "join_token_file": str(token)})
    with pytest.raises(InvalidConfig, match="chmod 600"):
        options.token()
    token.chmod(0o600)
    assert options.token() == "t0ken"


def test_the_token_is_in_no_text_of_the_options_and_in_no_url() -> None:
    options = parse_options({"master_host": "m", "join_token": "t0ken", "resource_pool": "a b"})
    assert "t0ken" not in repr(options) + str(options) + agents_url(options)
    assert agents_url(options).startswith("ws://m:80/agents?pool=a%20b&agent_id=")


@pytest.mark.parametrize(
    ("text", "said"),
    [("t0ken\nt1ken\n", "has 2 lines"), ("t0 ken", "spaces"), ("t0k\u00e9n", "ASCII")],
)
def test_a_join_token_is_one_word_and_never_part_of_the_message(
    tmp_path: Path, text: str, said: str
) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(text)
    for given in ({"join_token_file": str(token)}, {"join_token": text}):
        with pytest.raises(InvalidConfig) as caught:
            parse_options({"master_host": "m"} | given).token()
        assert said in str(caught.value)
        assert "t0" not in str(caught.value).replace(str(token), "")


def test_a_join_token_file_that_is_gone_is_named(tmp_path: Path) -> None:
    options = parse_options({"master_host": "m", "join_token_file": str(tmp_path / "gone")})
    with pytest.raises(InvalidConfig, match="gone: No such file"):
        options.token()


def test_problems_name_the_file_or_variable_they_were_read_from(tmp_path: Path) -> None:
    path = write(tmp_path, "master_hots: m\nslot_type: tpu\nsecurity: {tls: {enabled: perhaps}}")
    with pytest.raises(InvalidConfig) as caught:
        load_options(path, {"visible_gpus": 7}, {"DET_ARTIFICIAL_SLOTS": "-1", "DET_MASTER": "m:1"})
    problems = caught.value.problems
    for start in (
        f'{path}: master_hots: unknown key, did you mean "master_host"?',
        f"{path}: slot_type:",
        f"{path}: security.tls.enabled:",
        "DET_ARTIFICIAL_SLOTS: artificial_slots:",
        "DET_MASTER: master_url:",
        "visible_gpus:",
    ):
        assert [p for p in problems if p.startswith(start)], (start, problems)


def test_keys_that_mean_nothing_here_are_told(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "master_host: m\nbind_ip: 0.0.0.0\nbind_port: 9090\napi_enabled: true\ntls: true\ntls_cert: c\n"
        "tls_key: k\nconfig_file: /x\nhooks: {on_connection_lost: [shutdown, now]}\n",
    )
    loaded = load_options(path)
    assert loaded.options.url == "http://m:80"
    keys = [
        "api_enabled",
        "bind_ip",
        "bind_port",
        "config_file",
        "hooks",
        "tls",
        "tls_cert",
        "tls_key",
    ]
    said = tuple(f"{path}: {key} has no effect: " for key in keys)
    assert len(loaded.warnings) == len(said)
    for line, start in zip(loaded.warnings, said, strict=True):
        assert line.startswith(start)
        assert line != start, "it says why"


def test_variables_of_tasks_and_empty_ones_are_no_options(tmp_path: Path) -> None:
    environ = {
        "DET_MASTER": "http://m:1",
        "DET_RESOURCE_POOL": "",
        "DET_TASK_ID": "t",
        "DET_LOG": "loud",
        "DET_SECURITY": "{}",
    }
    options = load_options(None, {}, environ).options
    assert (options.resource_pool, options.log.level) == ("default", "info")
    assert options.master_url == "http://m:1"


def test_a_host_of_a_higher_layer_replaces_the_url_below(tmp_path: Path) -> None:
    path = write(tmp_path, "master_url: http://file:1")
    environ = {"DET_MASTER_HOST": "env", "DET_MASTER_PORT": "2"}
    assert load_options(path, {}, environ).options.url == "http://env:2"
    assert (
        load_options(path, {"master_url": "http://flag:3"}, environ).options.url == "http://flag:3"
    )


@pytest.mark.parametrize(
    ("own", "given"),
    [
        ({}, ContainerLimits(cpus=1.5, memory_bytes=64 * 2**30, pids=None)),
        (
            {"cpus": 8, "pids": 10, "memory_bytes": 2**30},
            ContainerLimits(cpus=8, memory_bytes=2**30, pids=10),
        ),
    ],
)
def test_limits_of_the_agent_count_where_a_task_has_none(
    own: dict[str, object], given: ContainerLimits
) -> None:
    options = parse_options(
        {"master_host": "m", "default_limits": {"cpus": 1.5, "memory": "64GiB"}}
    )
    machine = AgentMachine(options, Hardware(), FakeRuntime())
    spec = ContainerSpec(
        container_id="c",
        allocation_id="a",
        task_id="t",
        task_type="TRIAL",
        entrypoint=("x",),
        environment={},
        options=ContainerOptions(image="i", limits=ContainerLimits.model_validate(own)),
    )
    asked = machine.with_default_limits(spec)
    assert asked.options.limits == given
    assert asked.model_copy(update={"options": spec.options}) == spec
    assert asked.options.image == "i"


@pytest.mark.parametrize("memory", ["64 giraffes", "0", -1])
def test_a_default_limit_that_is_no_size_is_refused(memory: object) -> None:
    with pytest.raises(InvalidConfig, match=r"default_limits\.memory: "):
        parse_options({"master_host": "m", "default_limits": {"memory": memory}})


def test_a_variable_that_overrides_the_master_of_the_file_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, "master_host: file\nmaster_port: 1")
    loaded = load_options(path, {}, {"DET_MASTER": "http://env:2"})
    assert loaded.warnings == (
        f"the variable DET_MASTER overrides the master of {path}: this agent joins http://env:2",
    )
    assert load_options(path, {}, {}).warnings == ()
    by_flag = load_options(path, {"master_url": "http://flag:3"}, {"DET_MASTER": "http://env:2"})
    assert by_flag.warnings == (), "the operator has said it on the command line"


@pytest.mark.parametrize("at", [[], ["--at", "23:59"]])
def test_drain_takes_the_file_of_an_agent_with_tls(tmp_path: Path, at: list[str]) -> None:
    work_dir = tmp_path / "agent"
    work_dir.mkdir()
    (work_dir / "agent.lock").touch()
    text = f"master_host: m\nwork_dir: {work_dir}\nsecurity:\n  tls:\n    enabled: true\n"
    path = write(tmp_path, text)
    load_options(path, {}, {})  # what `windlass agent run` reads
    done = CliRunner().invoke(cli.app, ["drain", "--config-file", str(path), *at])
    assert done.exit_code == 0, done.output
    leaving = announced(work_dir)
    assert leaving is not None
    assert leaving.waits == (not at)
    if not at:
        assert leaving.at <= datetime.now(UTC)
        assert done.output.startswith("This machine goes now: maintenance")


def test_drain_may_be_said_again_and_a_time_counts_before_none(tmp_path: Path) -> None:
    (tmp_path / "agent.lock").touch()

    def drain(*words: str) -> Result:
        return CliRunner().invoke(cli.app, ["drain", "--work-dir", str(tmp_path), *words])

    for words in ((), (), ("--at", "2099-01-01T18:00Z")):
        done = drain(*words)
        assert done.exit_code == 0, done.output
    leaving = announced(tmp_path)
    assert leaving is not None
    assert (leaving.waits, leaving.at.year) == (False, 2099)
    put_off = drain()
    assert put_off.exit_code == 2
    assert "This machine goes at 2099-01-01 18:00+00:00 already" in put_off.output


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("10.7.0.2", "10.7.0.2"),
        ("fd00::2", "fd00::2"),
        ("127.0.0.1", ""),
        ("::1", ""),
        ("fe80::1%eth0", ""),
    ],
)
def test_only_an_address_that_others_can_use_is_told(address: str, told: str) -> None:
    assert shared_address(address) == told
