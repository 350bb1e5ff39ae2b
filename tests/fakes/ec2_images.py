"""Images in moto, as EC2 has them: tagged snapshots, and none removed while its image is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

IN_USE = "InvalidSnapshot.InUse"


def made_images(backend: Any) -> Sequence[Any]:
    """Those that calls made; the others are moto's own."""
    return [image for image in backend.amis.values() if image.instance_id]


def uses(backend: Any, snapshot_id: str) -> bool:
    return any(image.ebs_snapshot.id == snapshot_id for image in made_images(backend))


def remove_made_images(backend: Any) -> None:
    for image in made_images(backend):
        del backend.amis[image.id]
        backend.snapshots.pop(image.ebs_snapshot.id, None)


def without_snapshot_tags(form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The call without them, and them."""
    stems = [
        key.removesuffix("ResourceType")
        for key, kind in form.items()
        if key.endswith(".ResourceType") and kind == "snapshot"
    ]
    kept = {k: v for k, v in form.items() if not k.startswith(tuple(stems or ["?"]))}
    tags = {
        value: form[key.removesuffix("Key") + "Value"]
        for key, value in form.items()
        if key.endswith(".Key") and key.startswith(tuple(stems or ["?"]))
    }
    return kept, tags
