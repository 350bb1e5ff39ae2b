"""`up` and `down` that are interrupted in the middle: the state is kept, and one sentence says what to type next."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.fakes.s3_server import ACCESS_KEY, SECRET_KEY, keys, s3_client, s3_server
from tests.integration.deploy.test_cloud_life import PASSWORD, Site, whole_text
from tests.real_cluster import eventually
from windlass.base.errors import ProviderError
from windlass.deploy.cloud.aws.bucket import AwsBucket
from windlass.deploy.cloud.aws.plan import CLOUD
from windlass.deploy.cloud.state_bucket import SharedRecords
from windlass.deploy.cloud.state_folder import DeployPhase

pytestmark = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not on PATH"
)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def while_making(site: Site, module: str, act: Callable[[], None]) -> Path:
    """`act` once that module is being made; it does not end while the returned file is there."""
    hold = site.events.with_name(f"hold-{module}")
    hold.parent.mkdir(parents=True, exist_ok=True)
    holding = site.events.with_name(f"holding-{module}")
    hold.touch()

    def say(line: str) -> None:
        site.said.append(line)
        if hold.exists() and line.startswith(f"Making module.{module}"):
            # Said before Terraform has begun with it: an interrupt then would leave nothing half made.
            eventually("Terraform has begun with it", holding.exists)
            act()

    site.cluster = replace(site.cluster, say=say)
    return hold


def to_ourselves(kind: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), kind)


def kill_terraform() -> None:
    """While it makes the last thing: one that is killed while it writes its state may lose that."""
    for child in psutil.Process().children():
        if child.name() == "terraform":
            child.kill()


@pytest.mark.parametrize(
    "kind", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_an_interrupt_lets_terraform_end_and_up_goes_on(site: Site, kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    hold = while_making(site, "bucket", to_ourselves(kind))
    with pytest.raises(ProviderError) as error:
        site.up(initial_user_password=PASSWORD)
    hold.unlink()
    assert error.value.message.startswith("Interrupted. ")
    assert error.value.message.endswith("there: run up again to go on, or down to remove it")
    assert "Interrupted: waiting until Terraform has ended what it began" in site.said
    assert signal.getsignal(kind) is before
    assert site.phase is DeployPhase.MAKING
    assert not [child for child in psutil.Process().children() if child.name() == "terraform"]

    # What holds data is kept as it is, though Terraform would make it anew; the rest goes on.
    assert site.up(initial_user_password=PASSWORD) is not None
    assert not [line for line in site.happened() if line.endswith(" bucket")]
    assert site.phase is DeployPhase.UP
    assert PASSWORD not in whole_text(site.folder.path)


@pytest.mark.slow
def test_a_killed_terraform_is_said_and_up_goes_on(site: Site) -> None:
    hold = while_making(site, "master", kill_terraform)
    with pytest.raises(ProviderError) as error:
        site.up()
    hold.unlink()
    assert "Terraform was ended by signal 9. " in error.value.message
    assert "run up again to go on" in error.value.message
    assert site.up() is not None
    assert "make master m6i.large version 2" in site.happened()


@pytest.mark.slow
def test_a_killed_terraform_leaves_its_lock_in_the_bucket_and_the_sentence_that_opens_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        records = SharedRecords(AwsBucket("states", region="us-west-2"), CLOUD)
        site.cluster = replace(site.cluster, records=records)
        hold = while_making(site, "master", kill_terraform)
        with pytest.raises(ProviderError, match="signal 9"):
            site.up()
        hold.unlink()
        assert "windlass/aws/lab/terraform.tfstate.tflock" in keys(s3_client(url), "states")
        with pytest.raises(ProviderError, match="holds the lock of the state") as error:
            site.up()
        command = error.value.message.rpartition("if it was killed: ")[2].split(". ")[0]
        assert os.system(f"{command.replace('unlock ', 'unlock -force ')} >/dev/null") == 0  # noqa: S605
        assert site.up() is not None


@pytest.mark.slow
def test_an_interrupted_removal_says_to_run_down_again(site: Site) -> None:
    site.up()
    hold = site.events.with_name("hold-ending")

    def say(line: str) -> None:
        if line.startswith("Ending 1 machine") and not hold.exists():
            hold.touch()
            raise KeyboardInterrupt

    site.cluster = replace(site.cluster, say=say)
    with pytest.raises(ProviderError, match=r"^Interrupted\. Run down again to go on$"):
        site.down(["i-1"])
    assert site.phase is DeployPhase.REMOVING
    assert site.down(["i-1"], delete_data=True) == []
