"""The image that an agent makes of nothing to see whether a container starts."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from agent_bootstrap.agent.runtimes.trial import trial_image


def merged(root: Path) -> Path:
    (root / "usr/bin").mkdir(parents=True)
    (root / "home").mkdir()
    (root / "lib32").mkdir()
    for name in ("bin", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    return root


def test_programs_are_mounted_and_links_are_made(tmp_path: Path) -> None:
    image = trial_image(merged(tmp_path))
    assert [(bind.source, bind.target, bind.read_only) for bind in image.binds] == [
        ("/lib32", "/lib32", True),
        ("/usr", "/usr", True),
    ]
    with tarfile.open(fileobj=io.BytesIO(image.layer())) as archive:
        links = {member.name: member.linkname for member in archive if member.issym()}
        held = {member.name for member in archive}
    assert links == {"bin": "usr/bin", "lib64": "usr/lib64"}
    assert {"usr", "lib32", "tmp", "run", "opt", "etc/passwd"} <= held
    assert "home" not in held


def test_the_same_machine_has_the_same_image_and_another_one_another(tmp_path: Path) -> None:
    root = merged(tmp_path)
    before = trial_image(root)
    assert before.name == trial_image(root).name
    (root / "lib").symlink_to("usr/lib")
    assert trial_image(root).name != before.name
