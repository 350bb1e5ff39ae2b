"""What new work may not say of its image, its registry and its ports, though a stored configuration may."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress

from master.core.expconf.environment import Environment, Image
from master.core.expconf.errors import clipped
from master.core.expconf.normalise import DEVICE_TYPES
from master.core.expconf.proxied_ports import proxied_port_problems
from master.core.expconf.secrets import is_reference
from windlass.base.image_reference import EXAMPLES, BadImageName, parse_image

MAX_SHOWN = 200


def image_problems(image: Image, *, root: str) -> Iterator[str]:
    """One line for each name that is none. An empty one is: the task runs without an image."""
    for key, name in _names(image):
        try:
            parse_image(name)
        except BadImageName as error:
            yield f'{root}.{key}: "{clipped(name, MAX_SHOWN)}" {error}: {EXAMPLES}'


def environment_problems(environment: Environment, *, root: str) -> Iterator[str]:
    """`root`: the path of the section."""
    yield from image_problems(environment.image, root=root)
    yield from proxied_port_problems(environment.proxy_ports, root=root)
    auth = environment.registry_auth
    if auth is not None and auth.auth and not (is_reference(auth.auth) or _is_login(auth.auth)):
        yield (
            f"{root}.registry_auth.auth: is not USER:PASSWORD in base64: copy it from Docker's config.json, "
            "or give username and password"
        )


def image_files(image: Image | None) -> Iterator[tuple[str, str]]:
    """Where an image that is a file or folder of the nodes is named, and its path."""
    for key, name in _names(image) if image is not None else ():
        with suppress(BadImageName):
            if path := parse_image(name).path:
                yield key, path


def _names(image: Image) -> Iterator[tuple[str, str]]:
    """Each name once, with its key: `image` if it is of every kind of slot."""
    names = {kind: str(getattr(image, kind)) for kind in DEVICE_TYPES}
    if len(set(names.values())) == 1:
        names = {"": names["cpu"]}
    for kind, name in names.items():
        if name:
            yield (f"image.{kind}" if kind else "image"), name


def _is_login(text: str) -> bool:
    try:
        return b":" in base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
