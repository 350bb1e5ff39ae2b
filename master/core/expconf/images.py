"""What new work may not say of its image, its registry and its ports, though a stored configuration may."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from master.core.expconf.models.environment import Environment, Image, ProxyPort
from master.core.expconf.parsing.errors import clipped
from master.core.expconf.parsing.normalise import DEVICE_TYPES
from master.core.expconf.secrets import is_reference
from windlass.base.formats.image_reference import EXAMPLES, BadImageName, parse_image

MAX_SHOWN = 200
MAX_PORTS = 100
"""Of one task. Each is an entry of every list of tasks, and a service that the proxy knows."""


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
    yield from _port_problems(environment.proxy_ports, root=root)
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


def _port_problems(ports: Sequence[ProxyPort], *, root: str) -> Iterator[str]:
    """`root`: the path of the section."""
    where = f"{root}.proxy_ports"
    if len(ports) > MAX_PORTS:
        yield (
            f"{where}: {len(ports)} ports, more than the {MAX_PORTS} that one task may have: "
            "serve several things on one port, by their paths"
        )
    first: dict[int, int] = {}
    for number, port in enumerate(islice(ports, MAX_PORTS)):
        earlier = first.setdefault(port.proxy_port, number)
        if earlier != number:
            yield (
                f"{where}[{number}].proxy_port: {port.proxy_port} is that of proxy_ports[{earlier}], too: "
                "leave one of them out, or serve on another port"
            )
    defaults = [number for number, port in enumerate(ports) if port.default_service_id]
    for number in defaults[1:2]:
        yield (
            f"{where}[{number}].default_service_id: true, as in proxy_ports[{defaults[0]}]: "
            "only one port can be reached by the task's id alone"
        )


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
