"""What a machine fetches with the token of its launch: an archive with a script and what that needs. Pure."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from windlass.base.formats.json_types import JsonMapping
from windlass.base.packages import DISTRIBUTION, VERSION

OF_THE_MASTER = frozenset(
    {
        *("master_url", "master_host", "master_port", "resource_pool", "agent_id", "instance_id"),
        *("join_token", "join_token_file", "work_dir"),
    }
)
"""Keys of agent.yaml that no pool's settings decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSettings:
    """What machines of one pool are set up with. It may hold secrets: nobody but a new machine gets it."""

    startup_script: str = field(default="", repr=False)
    """Run by root before the agent, once on each machine; not where it ran while the machine's image was baked."""
    machine_script: str = field(default="", repr=False)
    """Run by root after it, once on each machine, and never while an image is baked."""
    agent: JsonMapping = field(default_factory=dict, repr=False)
    """Keys of agent.yaml."""
    image: str = ""
    """A container image with Windlass in /opt/windlass. Empty: it comes from the master, if the machine's image has
    none."""
    bake_images: Sequence[str] = ()
    """Container images that are pulled while an image is baked."""
    registries: JsonMapping = field(default_factory=dict, repr=False)
    """Logins of registries, as `auths` of Docker's config.json has them."""


def archive(settings: BootSettings, *, bake: bool = False) -> bytes:
    """A tar. The same settings make the same archive. `bake`: its machine becomes an image, and no agent."""
    files: dict[str, str] = {
        "boot.sh": Path(__file__).with_name("boot.sh").read_text(encoding="utf-8"),
        "version": f"{VERSION}\n",
        "distribution": f"{DISTRIBUTION}\n",
        "agent.yaml": json.dumps(agent_keys(settings.agent), indent=2) + "\n",
    }
    if settings.startup_script:
        files["startup_script"] = settings.startup_script
    if settings.machine_script:
        files["machine_script"] = settings.machine_script
    if settings.image:
        files["image"] = f"{settings.image}\n"
    if bake:
        files["bake"] = ""
        files["pulled"] = "".join(f"{image}\n" for image in settings.bake_images)
    if settings.image or bake:
        files["config.json"] = json.dumps({"auths": dict(settings.registries)})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in sorted(files.items()):
            content = text.encode()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o600
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def agent_keys(given: Mapping[str, object]) -> dict[str, object]:
    """Those of them that the agent of a machine gets."""
    return {key: value for key, value in given.items() if key not in OF_THE_MASTER}
