"""What goes wrong with a container on a live cluster, as the published client shows it: one sentence on the trial."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.image_registry import PASSWORD, USER, Registry, serving
from tests.jails import open_way_to
from tests.podman import IMAGE, Podman, running_podman
from tests.published import PublishedDet, needs_published
from tests.real_cluster import RealCluster, eventually

pytestmark = [pytest.mark.slow, needs_published]

ENGINE_MIB = 320
"""Of disk for the engine: what its images need, and less than `LAYER_MIB` more."""
LAYER_MIB = 300
TASKS_MIB = 16


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[None]:
    folder.mkdir(parents=True)
    made = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=755", "small", str(folder)]
    mounted = subprocess.run(made, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-R", "-l", str(folder)], check=True)


@contextmanager
def disk_kept_full(folder: Path) -> Iterator[None]:
    """Also while others free space on it: what an earlier task left may be removed at any time."""
    filler = folder / "filler"
    full, ends = threading.Event(), threading.Event()

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            while not ends.is_set():
                try:
                    file.write(bytes(4096))
                except OSError:
                    full.set()
                    ends.wait(0.001)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        assert full.wait(30)
        yield
    finally:
        ends.set()
        thread.join()
        filler.unlink()


@pytest.fixture(scope="module")
def engine() -> Iterator[Podman]:
    """One with little disk."""
    folder = Path(tempfile.mkdtemp(prefix="wlpod-"))
    with small_disk(folder / "root", ENGINE_MIB), running_podman(folder) as running:
        yield running


@pytest.fixture(scope="module")
def registry(engine: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("registry")
    write_image(folder, LAYER_MIB)
    with serving(folder, engine.registry_port) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(engine: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("failures")
    options = {"container_runtime": "podman", "container_socket": str(engine.socket)}
    with small_disk(open_way_to(folder / "node"), TASKS_MIB), RealCluster(folder, {}) as cluster:
        cluster.start_agent("node", slots=1, options=options)
        yield cluster


@pytest.fixture(scope="module")
def det(cluster: RealCluster) -> Iterator[PublishedDet]:
    with PublishedDet(cluster) as det:
        yield det


def write_image(folder: Path, mib: int) -> None:
    """An OCI image of one layer: zeros, small on the way and large on the disk."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        zeros = tarfile.TarInfo("zeros")
        zeros.size = mib << 20
        archive.addfile(zeros, io.BytesIO(bytes(zeros.size)))
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def described(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    layers = [f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"]
    rootfs = {"type": "layers", "diff_ids": layers}
    config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": rootfs, "config": {}})
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": described("config.v1+json", config.encode()),
        "layers": [described("layer.v1.tar+gzip", gzip.compress(layer.getvalue(), 1))],
    }
    index = {"manifests": [described("manifest.v1+json", json.dumps(manifest).encode())]}
    (folder / "index.json").write_text(json.dumps(index))


def submitted(det: PublishedDet, folder: Path, **changes: Any) -> int:
    """The trial of a new experiment."""
    config = {
        "name": "it fails",
        "entrypoint": "true",
        "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 1}},
        "environment": {"image": IMAGE},
        "max_restarts": 0,
        **changes,
    }
    model = folder / "model"
    model.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    said = det("experiment", "create", str(folder / "config.yaml"), str(model))
    return int(said.split("Created experiment ")[1].split()[0])


def told(det: PublishedDet, cluster: RealCluster, experiment: int) -> list[str]:
    """What went wrong, in the log of its one trial, once that says how the run ended."""

    def ended() -> str:
        trials = cluster.trials(experiment)
        said = det("trial", "logs", str(trials[0]["id"])) if trials else ""
        return said if "was terminated: " in said else ""

    said = eventually("the run has ended", ended)
    assert "Traceback" not in said
    return [line.split(" was terminated: ")[1] for line in said.splitlines() if " was t" in line]


MISSING = "image {} does not exist: check the name and the tag"
REFUSED = "the registry refused image {}: check registry_auth"
FULL = "image {} cannot be pulled: the disk of the agent's machine is full"


@pytest.mark.parametrize(
    ("name", "password", "says"),
    [
        pytest.param("team/net:none", PASSWORD, MISSING, id="missing image"),
        pytest.param("team/net:1", "wrong-one", REFUSED, id="wrong credentials"),
        pytest.param("team/net:1", PASSWORD, FULL, id="full disk"),
    ],
)
def test_an_image_that_cannot_be_had_is_one_sentence(
    name: str,
    password: str,
    says: str,
    det: PublishedDet,
    cluster: RealCluster,
    registry: Registry,
    tmp_path: Path,
) -> None:
    image = f"127.0.0.1:{registry.port}/{name}"
    login = {"username": USER, "password": password}
    environment = {"image": image, "registry_auth": login}
    experiment = submitted(det, tmp_path, environment=environment)
    sentence = told(det, cluster, experiment)[0]
    assert says.format(image) in sentence
    assert password not in sentence
    det("experiment", "kill", str(experiment))  # a full disk is not its fault: it is tried again
    cluster.wait(experiment)


def test_a_task_whose_image_is_pulled_is_shown_as_that(
    det: PublishedDet, cluster: RealCluster, registry: Registry, tmp_path: Path
) -> None:
    image = f"127.0.0.1:{registry.port}/team/slow:1"
    login = {"username": USER, "password": PASSWORD}
    registry.goes_on.clear()
    try:
        environment = {"image": image, "registry_auth": login}
        experiment = str(submitted(det, tmp_path, environment=environment))
        eventually(
            "its trial is pulling",
            lambda: "PULLING" in det("experiment", "list-trials", experiment),
        )
        assert "PULLING" in det("experiment", "describe", experiment)
        trial = str(cluster.trials(int(experiment))[0]["id"])
        eventually(
            "its log says so", lambda: f"Pulling image {image}" in det("trial", "logs", trial)
        )
    finally:
        registry.goes_on.set()
    det("experiment", "kill", experiment)
    cluster.wait(int(experiment))


def test_more_memory_than_allowed_is_one_sentence(
    det: PublishedDet, cluster: RealCluster, tmp_path: Path
) -> None:
    eats = "python3 -c 'x = bytearray(512 * 2**20)'"
    experiment = submitted(
        det, tmp_path, entrypoint=eats, resources={"limits": {"memory": "64MiB"}}
    )
    assert told(det, cluster, experiment) == [
        "allocation failed: the task was killed because it used more memory than its limit of 0.06 GiB "
        "(exit code 137)"
    ]


def test_a_full_disk_under_the_task_is_the_tasks_own_sentence_and_ends_nothing_else(
    det: PublishedDet, cluster: RealCluster, tmp_path: Path
) -> None:
    experiment = submitted(det, tmp_path, entrypoint="cat /dev/zero > big || exit 3")
    assert told(det, cluster, experiment) == [
        "allocation failed: container failed with non-zero exit code: 3"
    ]
    said = det("trial", "logs", str(cluster.trials(experiment)[0]["id"]))
    assert "cat: write error: No space left on device" in said
    after = submitted(det, tmp_path / "after", entrypoint="true")
    assert cluster.wait(after)["state"] == "STATE_COMPLETED"


def test_a_node_whose_disk_is_full_says_so(
    det: PublishedDet, cluster: RealCluster, tmp_path: Path
) -> None:
    with disk_kept_full(cluster.folder / "node"):
        experiment = submitted(det, tmp_path)
        sentence = told(det, cluster, experiment)[0]
    assert sentence.endswith("the agent could not run the task: No space left on device")
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", "not its fault: it ran again"


def test_a_container_that_ignores_term_is_killed_in_time(
    det: PublishedDet, cluster: RealCluster, engine: Podman, tmp_path: Path
) -> None:
    deaf = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    experiment = submitted(det, tmp_path, entrypoint=deaf, preemption_timeout=1)
    (trial,) = eventually("a trial", lambda: cluster.trials(experiment))
    eventually("it runs", lambda: "deaf" in cluster.logs_of(trial["id"]))
    det("experiment", "pause", str(experiment))
    (sentence,) = told(det, cluster, experiment)
    assert sentence.endswith("allocation did not preempt in 1s")
    det("experiment", "kill", str(experiment))
    assert cluster.wait(experiment)["state"] == "STATE_CANCELED"
    eventually("no container is left", lambda: not engine.run("ps", "--all", "--quiet"))
