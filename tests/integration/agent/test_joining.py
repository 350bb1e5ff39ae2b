"""`windlass agent join` and `leave` against a real master, with a systemd of the test's own."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent_home import AgentHome
from tests.command_line import run_here
from tests.real_cluster import RealCluster, eventually, free_port
from windlass.sdk.client import Client
from windlass.sdk.session import Session


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    pools = [{"pool_name": "default"}, {"pool_name": "gpu"}]
    with RealCluster(tmp_path_factory.mktemp("joining"), {"resource_pools": pools}) as cluster:
        yield cluster


@pytest.fixture
def home(tmp_path: Path) -> Iterator[AgentHome]:
    home = AgentHome(tmp_path / "home")
    yield home
    home.end()


@pytest.fixture(scope="module")
def admin(cluster: RealCluster) -> Iterator[Client]:
    with Session(cluster.url) as session:
        session.login("admin", cluster.password)
        yield Client(session)


def token(admin: Client, **wanted: Any) -> str:
    return str(admin.create_join_token({"pool": "gpu", **wanted})["token"])


def join(home: AgentHome, url: str, name: str, *words: str, given: str = "") -> Any:
    return home.run_here(
        *("join", url, "--user", "--agent-id", name, "--set", "artificial_slots=2", *words),
        given=given,
    )


def test_one_line_makes_an_agent_that_comes_back_without_its_token(
    cluster: RealCluster, admin: Client, home: AgentHome
) -> None:
    made = token(admin)
    done = home.run(
        *("join", cluster.url, "--user", "--agent-id", "one", "--set", "artificial_slots=2"),
        *("--token", made),
    )
    assert done.returncode == 0, done.stderr
    assert "joined pool gpu" in done.stderr
    assert "connected, with 2 slots" in done.stderr
    assert "one" in cluster.agents()
    assert home.settings["resource_pool"] == "gpu"
    assert home.settings["master_url"] == cluster.url
    for private in (home.config, home.work_dir / "credential"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600, private
    for path in home.home.rglob("*"):
        if path.is_file():
            assert made.encode() not in path.read_bytes(), path
    (agent,) = home.agents()
    assert not any(made in word for word in [*agent.cmdline(), *agent.environ().values()])
    unit = home.unit.read_text()
    assert "KillMode=process" in unit
    assert "OOMPolicy=continue" in unit
    assert "\nDelegate=yes\n" in unit
    assert "\nDelegateSubgroup=agent\n" in unit
    before = list(home.calls)
    again = join(home, cluster.url, "one")
    assert again.returncode == 0, again.stderr
    assert home.agents() == [agent], "nothing changed, so nothing is started again"
    assert not any(call.startswith("restart") for call in home.calls[len(before) :])
    label = join(home, cluster.url, "one", "--set", "label=rack-7")
    assert label.returncode == 0, label.stderr
    assert home.agents() != [agent]
    assert home.settings["label"] == "rack-7"
    left = home.run("leave", "--user", "--yes")
    assert left.returncode == 0, left.stderr
    assert home.agents() == []
    assert not home.config.exists()
    assert not home.work_dir.exists()
    assert not home.unit.exists()
    assert "one" not in cluster.agents()
    assert "no agent has joined here" in home.run_here("leave", "--user", "--yes").stderr


def test_a_token_is_read_from_a_file_from_standard_input_or_from_a_variable(
    cluster: RealCluster, admin: Client, home: AgentHome, tmp_path: Path
) -> None:
    many = token(admin, anyNumber=True)
    file = tmp_path / "token"
    file.write_text(many + "\n")
    how: tuple[tuple[tuple[str, ...], str, dict[str, str]], ...] = (
        (("--token-file", str(file)), "", {}),
        (("--token-file", "-"), many + "\n", {}),
        ((), "", {"WINDLASS_JOIN_TOKEN": many}),
    )
    for number, (words, given, environ) in enumerate(how):
        place = AgentHome(home.home / str(number))
        done = place.run_here(
            *("join", cluster.url, "--user", "--agent-id", f"t{number}", "--no-service", *words),
            given=given,
            **environ,
        )
        assert done.returncode == 0, done.stderr
        assert "`det agent list` shows the agent once it is connected" in done.stderr
        assert done.stdout.split()[-2:] == ["--config-file", str(place.config)]
        assert place.calls == []


def test_whatever_is_wrong_is_one_sentence_and_changes_nothing(
    cluster: RealCluster, admin: Client, home: AgentHome
) -> None:
    spent, short, revoked = token(admin), token(admin, validS=0.001), token(admin)
    other = home.home / "other"
    first = AgentHome(other).run_here(
        "join", cluster.url, "--user", "--agent-id", "first", "--no-service", "--token", spent
    )
    assert first.returncode == 0, first.stderr
    for listed in admin.join_tokens():
        if revoked.startswith(f"wjt_{listed['id']}_"):
            admin.revoke_join_token(listed["id"])
    closed = f"http://127.0.0.1:{free_port()}"
    table: tuple[tuple[str, tuple[str, ...], str], ...] = (
        (cluster.url, ("--token", spent), "spent by agent 'first'"),
        (cluster.url, ("--token", short), "the join token expired at"),
        (cluster.url, ("--token", revoked), "the join token was revoked at"),
        (cluster.url, ("--token", "wjt_nope"), "knows no such join token"),
        (cluster.url, (), "knows no such join token"),
        (cluster.url, ("--token", "two words"), "a token has no spaces"),
        (cluster.url, ("--token", token(admin), "--pool", "default"), "is for pool 'gpu'"),
        (closed, ("--token", spent), f"Cannot connect to master at {closed}: Connection refused"),
        ("ftp://x", ("--token", spent), "is not a URL of a master"),
        (cluster.url.replace("http", "https"), ("--token", spent), "does not speak TLS"),
        (cluster.url, ("--token", spent, "--set", "slot_typ=cpu"), 'did you mean "slot_type"'),
        (cluster.url, ("--token", spent, "--token-file", "x"), "either --token or"),
        (cluster.url, ("--token-file", "/no/such"), "No such file"),
    )
    for url, words, said in table:
        done = join(home, url, "second", *words)
        assert done.returncode in (1, 2), (words, done.stderr)
        assert said in done.stderr, (words, done.stderr)
        assert len([t for t in done.stderr.splitlines() if t.startswith("error:")]) == 1
        assert "Traceback" not in done.stderr
        assert not home.config.exists()
        assert home.agents() == []
    refused = {agent["id"]: agent for agent in admin.refused_agents()}
    assert refused["second"]["times"] >= 5
    good = join(home, cluster.url, "second", "--token", token(admin))
    assert good.returncode == 0, good.stderr
    moved = join(home, f"{cluster.url}/other", "second", "--token", spent)
    assert "leave that first" in moved.stderr


def test_a_service_that_fails_is_told_and_mended_by_calling_again(
    cluster: RealCluster, admin: Client, home: AgentHome
) -> None:
    once = token(admin)
    home.break_systemctl("show")
    done = join(home, cluster.url, "third", "--token", once)
    assert done.returncode == 1
    assert "--no-service" in done.stderr
    assert "it is broken" in done.stderr
    assert not home.config.exists(), "found out before anything is asked of the master"
    home.break_systemctl("restart")
    done = join(home, cluster.url, "third", "--token", once)
    assert "systemctl --user restart windlass-agent.service failed" in done.stderr
    home.break_systemctl("nothing")
    done = join(home, cluster.url, "third", "--token", once)
    assert done.returncode == 0, done.stderr


def test_an_agent_that_leaves_waits_for_its_tasks_or_kills_them(
    cluster: RealCluster, admin: Client, home: AgentHome
) -> None:
    done = join(home, cluster.url, "fourth", "--token", token(admin, pool="default"))
    assert done.returncode == 0, done.stderr
    config = {"entrypoint": ["sleep", "600"], "resources": {"slots": 1}}
    body = {"config": config}
    launched = cluster.client.session.post("/api/v1/commands", body)["command"]["id"]

    def state() -> str:
        return str(cluster.get(f"/api/v1/commands/{launched}")["command"]["state"])

    eventually("it runs", lambda: state() == "STATE_RUNNING")
    refused = home.run_here("leave", "--user", "--yes", "--grace", "1s")
    assert refused.returncode == 1
    assert "still runs 1 task:" in refused.stderr
    assert home.agents(), "it goes on until they are gone"
    left = home.run_here("leave", "--user", "--yes", "--grace", "0", "--force")
    assert left.returncode == 0, left.stderr
    assert state() == "STATE_TERMINATED"
    assert not home.work_dir.exists()


def test_the_line_that_an_administrator_is_given_works_and_is_listed_masked(
    cluster: RealCluster, home: AgentHome
) -> None:
    def master(*words: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
        asked = ("-m", cluster.url, "master", "join-token", *words)
        return run_here(asked, home.environ | cluster.login_as(user))

    made = master("create", "gpu", "--uses", "2", "--valid", "2h", "--description", "rack 7")
    assert made.returncode == 0, made.stderr
    assert "for 2 agents of pool gpu, until" in made.stderr
    program, group, *line = made.stdout.split()
    assert (program, group, line[:2]) == ("windlass", "agent", ["join", cluster.url])
    done = home.run_here(*line, "--user", "--agent-id", "given", "--no-service")
    assert done.returncode == 0, done.stderr
    listed = master("list")
    secret = line[3].rpartition("_")[2]
    assert secret not in listed.stdout
    (row,) = [text for text in listed.stdout.splitlines() if "rack 7" in text]
    assert "usable" in row
    assert "1 of 2" in row
    token_id = row.split()[0]
    revoked = master("revoke", token_id)
    assert "agents joined with it: given" in revoked.stderr
    again = AgentHome(home.home / "again").run_here(
        *line, "--user", "--agent-id", "x", "--no-service"
    )
    assert "revoked at" in again.stderr
    assert master("create", "gpu", "--token-only").stdout.startswith("wjt_")
    for words, said in (
        (("create", "nope"), "the pools are: default, gpu"),
        (("create", "gpu", "--uses", "0"), "neither a number of agents nor any"),
        (("create", "gpu", "--valid", "soon"), "is not a duration"),
        (("revoke", "nope"), "join token 'nope' not found"),
    ):
        assert said in master(*words).stderr, words
    assert "only administrators" in master("list", user="determined").stderr


def test_the_list_of_agents_shows_refused_ones_to_administrators(
    cluster: RealCluster, admin: Client, home: AgentHome
) -> None:
    join(home, cluster.url, "stranger", "--token", "wrong")

    def listed(user: str, *words: str) -> subprocess.CompletedProcess[str]:
        asked = ("-m", cluster.url, "agent", "list", *words)
        return run_here(asked, home.environ | cluster.login_as(user))

    shown = listed("admin", "--all")
    assert shown.returncode == 0, shown.stderr
    (line,) = [text for text in shown.stdout.splitlines() if text.startswith("stranger")]
    assert " refused " in line
    assert "127.0.0.1" in line
    assert "knows no such join token" in line
    found = json.loads(listed("admin", "--all", "--json").stdout)
    assert [a["reason"] for a in found if a.get("refused") and a["id"] == "stranger"]
    assert "stranger" not in listed("determined").stdout
    assert "only administrators" in listed("determined", "--all").stderr
