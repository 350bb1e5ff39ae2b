"""The verbs and options of `det deploy local`: ours, and every one of the published client."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from windlass import DETERMINED_VERSION, __version__
from windlass.base.errors import InvalidArgument
from windlass.cli.deploy import local as deploy
from windlass.cli.deploy.local_output import tell_ended
from windlass.cli.main import app
from windlass.deploy.local.cluster import AgentSpec, LocalCluster, Started, StartOptions
from windlass.deploy.local.folder import ClusterFolder, folder_of
from windlass.deploy.local.logs import Tail, lines_of, readable
from windlass.deploy.local.master_yaml import agents_pool, config_file, make_folders, with_tls
from windlass.deploy.local.options import ClusterRecord, Options
from windlass.deploy.local.services import StartFailed
from windlass.deploy.local.waiting import require_gpus


class Asked:
    """Stands in for a cluster: what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.options = Options()
        self.start = StartOptions()
        self.agent: AgentSpec | None = None
        self.calls: list[tuple[Any, ...]] = []
        self.folder: ClusterFolder | None = None
        asked = self

        def up(
            self: LocalCluster, given: Options, start: StartOptions, *, with_agents: bool = True
        ) -> Started:
            asked.options, asked.start, asked.folder = given, start, self.folder
            asked.calls.append(("up", with_agents))
            return Started(options=given, logged_in=False, slots={"agent-0": 0})

        def agent_up(self: LocalCluster, agent: AgentSpec) -> Mapping[str, int]:
            asked.agent, asked.folder = agent, self.folder
            return {}

        def down(self: LocalCluster, *, delete_db: bool = False) -> tuple[list[str], None]:
            asked.folder = self.folder
            asked.calls.append(("down", delete_db))
            return ["master"], None

        def master_down(self: LocalCluster, *, delete_db: bool = False) -> tuple[list[str], None]:
            asked.calls.append(("master_down", delete_db))
            return ["master"], None

        def agents_down(self: LocalCluster, names: Any) -> list[str]:
            asked.calls.append(("agents_down", names))
            return []

        for function in (up, agent_up, down, master_down, agents_down):
            monkeypatch.setattr(LocalCluster, function.__name__, function)
        ClusterRecord(url="http://127.0.0.1:8080").write(made(folder_of(None, None)))

    def det(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["deploy", *words])


def made(folder: ClusterFolder) -> ClusterFolder:
    folder.path.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    return Asked(monkeypatch, tmp_path)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "master.yaml").write_text("port: 1")
    (tmp_path / "agent.yaml").write_text("agent_id: from-file")
    (tmp_path / "token").write_text("t")
    (tmp_path / "work").mkdir()
    return tmp_path


EFFECTS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--master-config-path", "master.yaml"): {"master_config": "master.yaml"},
    ("--master-config", "master.yaml"): {"master_config": "master.yaml"},
    ("--storage-host-path", "ckpt"): {"storage_host_path": "ckpt"},
    ("--agents", "3"): {"agents": 3},
    ("--master-port", "8181"): {"port": 8181},
    ("--port", "8181"): {"port": 8181},
    ("--cluster-name", "lab"): {"cluster_name": "lab"},
    ("--gpu",): {"gpu": True},
    ("--no-gpu",): {"gpu": False},
    ("--no-autorestart",): {"autorestart": False},
    ("--auto-work-dir", "work"): {"auto_work_dir": "work"},
    ("--slots", "2"): {"slots": 2},
    ("--tls",): {"tls": True},
    ("--slots-per-agent", "2"): {"slots": 2},
    ("--host", "10.0.0.5"): {"host": "10.0.0.5"},
    ("--agent-resource-pool", "big"): {"pool": "big"},
    ("--det-version", DETERMINED_VERSION): {},
    ("--det-version", __version__): {},
}
"""Options of `cluster-up`, and what becomes of them."""
OF_AGENTS = {"agents", "gpu", "slots", "pool"}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["cluster-up", "master-up"])
@pytest.mark.parametrize("words", EFFECTS, ids=" ".join)
def test_options_have_their_effect(
    verb: str, words: tuple[str, ...], asked: Asked, files: Path
) -> None:
    expected = EFFECTS[words]
    if verb == "master-up" and OF_AGENTS & expected.keys():
        assert asked.det("local", verb, *words).exit_code == 2
        return
    done = asked.det("local", verb, *words)
    assert done.exit_code == 0, done.output
    given = {k: Path(v).name if "/" in str(v) else v for k, v in asked.options.given.items()}
    assert given == expected
    assert asked.calls == [("up", verb == "cluster-up")]
    assert "no effect" not in done.output


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("cluster-up", ("--db-password", "postgres")),
        ("cluster-up", ("--enterprise-edition",)),
        ("master-up", ("--db-password", "postgres")),
        ("master-up", ("--enterprise-edition",)),
        ("master-up", ("--master-name", "m")),
        ("master-up", ("--image-repo-prefix", "determinedai")),
        ("master-down", ("--master-name", "m")),
        ("agent-up", ("localhost", "--image-repo-prefix", "determinedai")),
        ("agent-up", ("localhost", "--enterprise-edition")),
    ],
)
def test_options_that_mean_nothing_here_say_so(
    verb: str, words: tuple[str, ...], asked: Asked
) -> None:
    done = asked.det("local", verb, *words)
    option = next(word for word in words if word.startswith("--"))
    assert done.exit_code == 0, done.output
    assert f"warning: {option} has no effect: " in done.stderr
    assert "postgres " not in done.stderr, "a password is not repeated"


@pytest.mark.parametrize(
    "words", [("--no-preflight-checks",), ("--no-wait-for-master",), ("--image-repo-prefix", "x")]
)
def test_options_before_the_provider_say_so(words: tuple[str, ...], asked: Asked) -> None:
    done = asked.det(*words, "local", "cluster-down")
    assert done.exit_code == 0
    assert f"warning: {words[0]} has no effect: " in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cluster-up", "--det-version", "0.30.0"), "--det-version 0.30.0: this is Windlass"),
        (("master-up", "--det-version", "0.30.0"), "--det-version 0.30.0: this is Windlass"),
        (("agent-up", "x", "--det-version", "0.30.0"), "--det-version 0.30.0: this is Windlass"),
        (("cluster-up", "--master-config", "none.yaml"), "--master-config none.yaml: no such file"),
        (("agent-up", "--agent-config-path", "no.yaml"), "--agent-config no.yaml: no such file"),
        (("agent-up", "--join-token-file", "none"), "--join-token-file none: no such file"),
        (("agent-up", "ftp://x"), '"ftp://x" is not a host: write HOST, or http'),
        (("agent-up", "--agent-name", "master"), '--agent-name "master": use letters'),
        (("agent-up", "--agent-name", "../x"), '--agent-name "../x": use letters'),
        (("agent-up", "--cluster-name", "empty"), "There is no cluster in"),
        (("cluster-up", "--cluster-name", "../x"), '--cluster-name "../x": use at most 63'),
        (
            ("cluster-up", "--master-config", "master.yaml", "--storage-host-path", "x"),
            "exclude each other",
        ),
        (("logs", "nobody"), "No log of nobody: no cluster was started there"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    words: tuple[str, ...], said: str, asked: Asked, files: Path
) -> None:
    done = asked.det("local", *words)
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert asked.calls == []


def test_agent_up_takes_the_published_options(asked: Asked, files: Path) -> None:
    words = ("--master-port", "8181", "--agent-config-path", "agent.yaml", "--no-gpu")
    words += ("--agent-resource-pool", "big", "--no-autorestart", "--join-token-file", "token")
    words += ("--agent-label", "rack=a", "--agent-label", "b", "--det-version", DETERMINED_VERSION)
    done = asked.det("local", "agent-up", "gpu-box", *words, "--cluster-name", "lab")
    assert done.exit_code == 0, done.output
    assert asked.agent == AgentSpec(
        name="from-file",
        url="http://gpu-box:8181",
        pool="big",
        labels=["rack=a", "b"],
        gpu=False,
        config_file=files / "agent.yaml",
        join_token_file=files / "token",
        autorestart=False,
    )
    assert asked.folder == folder_of("lab", None)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ((), "http://127.0.0.1:8080"),
        (("localhost",), "http://127.0.0.1:8080"),
        (("localhost", "--master-port", "81"), "http://localhost:81"),
        (("http://127.0.0.1:8080",), "http://127.0.0.1:8080"),
        (("https://far:8443",), "https://far:8443"),
        (("https://localhost:8080",), "https://localhost:8080"),
        (("far",), "http://far:8080"),
        (("[::1]:81",), "http://[::1]:81"),
    ],
)
def test_our_own_master_is_known_by_all_its_names(
    host: tuple[str, ...], url: str, asked: Asked
) -> None:
    assert asked.det("local", "agent-up", *host, "--agent-name", "a").exit_code == 0
    assert asked.agent is not None
    assert asked.agent.url == url


def test_downs(asked: Asked) -> None:
    for words in (
        ("cluster-down", "--delete-db", "--cluster-name", "lab"),
        ("master-down", "--delete-db"),
        ("agent-down", "--all", "--cluster-name", "local"),
    ):
        assert asked.det("local", *words).exit_code == 0
    for words in (("agent-down", "--agent-name", "a"), ("agent-down",)):
        unknown = asked.det("local", *words)
        assert unknown.exit_code == 1
        assert f"in {folder_of(None, None).path}: there are none" in unknown.output
    assert asked.calls == [
        ("down", True),
        ("master_down", True),
        ("agents_down", None),
        ("agents_down", {"a"}),
        ("agents_down", {socket.gethostname()}),
    ]
    assert asked.folder == folder_of("lab", None)


def test_what_was_stopped_is_named_and_tasks_are_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_ended(["agent-0", "task 0a1b", "task 0a1c", "master"], "nothing")
    assert capsys.readouterr().out == "Stopped: agent-0, master, 2 tasks\n"
    tell_ended([], "No cluster was running in /x")
    assert capsys.readouterr() == ("", "No cluster was running in /x\n")


def test_gpus_that_were_asked_for_and_are_not_there_are_an_error() -> None:
    require_gpus({"agent-0": 2})
    with pytest.raises(StartFailed, match=r"agent-1 found no GPU .*--no-gpu"):
        require_gpus({"agent-0": 2, "agent-1": 0})


def test_names_have_folders_of_their_own(home: Path) -> None:
    share = home / ".local" / "share" / "windlass"
    assert folder_of(None, None).path == folder_of("local", None).path == share / "local"
    assert folder_of("lab", None).path == share / "clusters" / "lab"
    assert folder_of("lab", Path("/x")).path == Path("/x")


def test_options_become_a_master_yaml(tmp_path: Path) -> None:
    folder = made(ClusterFolder(tmp_path / "data"))
    own = tmp_path / "own.yaml"
    own.write_text("cluster_name: mine\ntask_container_defaults: {bind_mounts: [{host_path: /a}]}")
    assert config_file(Options(), folder) is None
    assert config_file(Options(master_config=own), folder) == own
    options = Options(master_config=own, cluster_name="lab", auto_work_dir=tmp_path)
    written = config_file(options, folder)
    assert written == folder.master_yaml
    assert yaml.safe_load(written.read_text()) == {
        "cluster_name": "lab",
        "task_container_defaults": {
            "work_dir": str(tmp_path),
            "bind_mounts": [
                {"host_path": "/a"},
                {"host_path": str(tmp_path), "container_path": str(tmp_path)},
            ],
        },
    }
    storage = Options(storage_host_path=tmp_path / "s" / "t")
    make_folders(storage)
    assert (tmp_path / "s" / "t").stat().st_mode & 0o7777 == 0o1777
    content = yaml.safe_load(Path(str(config_file(storage, folder))).read_text())
    assert content == {
        "checkpoint_storage": {"type": "shared_fs", "host_path": str(tmp_path / "s" / "t")}
    }


@pytest.mark.parametrize(
    ("text", "is_on", "written"),
    [
        ("", False, {"self_signed": True}),
        ("security: {tls: {ca: x}}", False, {"ca": "x", "self_signed": True}),
        ("security: {tls: {cert: c, key: k}}", True, None),
        ("security: {tls: {self_signed: true}}", True, None),
    ],
)
def test_tls_is_that_of_master_yaml_or_our_own(
    text: str, is_on: bool, written: Any, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(text)
    options = Options(master_config=tmp_path / "own.yaml")
    assert with_tls(options).tls == is_on
    assert with_tls(options).url.startswith("https:" if is_on else "http:")
    with_own = Options(tls=True).over(options)
    file = config_file(with_own, made(ClusterFolder(tmp_path / "data")))
    assert file is not None
    if written is None:
        assert file == options.master_config
    else:
        assert yaml.safe_load(file.read_text())["security"]["tls"] == written


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        ("", "default"),
        ("resource_pools: [{pool_name: a}, {pool_name: default}]", "default"),
        ("resource_pools: [{pool_name: a, provider: {}}, {pool_name: b}]", "b"),
    ],
)
def test_agents_join_a_pool_that_waits_for_them(text: str, pool: str, tmp_path: Path) -> None:
    (tmp_path / "master.yaml").write_text(text)
    options = Options(master_config=tmp_path / "master.yaml")
    assert agents_pool(options) == pool
    assert agents_pool(Options(pool="given").over(options)) == "given"


@pytest.mark.parametrize(
    ("text", "why"), [("a: [", "is not YAML"), ("- a", "expected a YAML mapping")]
)
def test_a_master_yaml_that_is_none_is_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(text)
    options = Options(master_config=tmp_path / "m.yaml", cluster_name="x")
    with pytest.raises(InvalidArgument, match=why):
        config_file(options, made(ClusterFolder(tmp_path)))


def test_a_work_dir_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"--auto-work-dir .*none: no such folder"):
        make_folders(Options(auto_work_dir=tmp_path / "none"))


def test_events_of_a_log_are_readable() -> None:
    event = {"timestamp": "2026-01-02T03:04:05.678Z", "level": "info", "event": "it is up", "n": 1}
    assert readable(json.dumps(event)) == "2026-01-02 03:04:05 info    it is up n=1"
    spaced = {"event": "x", "why": "two words", "exception": "Traceback\n  here"}
    assert readable(json.dumps(spaced)) == 'x why="two words"\nTraceback\n  here'.replace(
        "x ", "        x ", 1
    )
    assert readable("error: plain") == "error: plain"
    assert readable('{"no": 1}') == '{"no": 1}'


def test_logs_are_followed_over_their_emptying(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    steps = iter(["one\ntw", "one\ntwo\n", "3\n"])

    def write(_: float = 0) -> None:
        text = next(steps, None)
        if text is None:
            raise KeyboardInterrupt
        log.write_text(text)

    write()
    found: list[str] = []
    with suppress(KeyboardInterrupt):
        for line in lines_of({"a": log}, follow=True, sleep=write):
            found.append(line)
    assert found == ["one", "two", "3"]


def test_logs_of_several_say_whose_line_it_is(tmp_path: Path) -> None:
    (tmp_path / "master.log").write_text("1\n2\n3\n")
    (tmp_path / "a.log").write_text("x\n")
    logs = {"master": tmp_path / "master.log", "a": tmp_path / "a.log", "b": tmp_path / "none"}
    assert list(lines_of(logs, follow=False, tail=2)) == ["master | 2", "master | 3", "a      | x"]
    tail = Tail(tmp_path / "master.log")
    tail.skip_to_last(0)
    assert tail.new_lines() == []


def test_every_published_option_is_in_a_table_above() -> None:
    """The published parser's own list (0.38.1), verb by verb."""
    published = {
        "cluster-up": "master-config-path storage-host-path initial-user-password agents master-port cluster-name "
        "det-version db-password delete-db gpu no-gpu no-autorestart auto-work-dir enterprise-edition",
        "cluster-down": "cluster-name delete-db",
        "master-up": "master-config-path storage-host-path initial-user-password master-port master-name det-version "
        "db-password delete-db no-autorestart cluster-name image-repo-prefix auto-work-dir enterprise-edition",
        "master-down": "master-name delete-db cluster-name",
        "logs": "cluster-name no-follow",
        "agent-up": "master-port agent-config-path det-version agent-name agent-resource-pool gpu no-gpu "
        "no-autorestart cluster-name image-repo-prefix enterprise-edition",
        "agent-down": "agent-name all cluster-name",
    }
    from typer.main import get_command

    group: Any = get_command(deploy.app)
    for verb, options in published.items():
        command = group.commands[verb]
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        assert {f"--{option}" for option in options.split()} <= known, verb
