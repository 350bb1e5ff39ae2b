"""Names of images: what each means, and the sentence for what means nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.base.formats.image_reference import BadImageName, ImageReference, parse_image

DIGEST = "sha256:" + "0123456789abcdef" * 4


def reference(**parts: Any) -> ImageReference:
    return ImageReference(**{"registry": "docker.io", "tag": "latest", **parts})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python", reference(repository="library/python")),
        ("python:3.11", reference(repository="library/python", tag="3.11")),
        ("team/net", reference(repository="team/net")),
        ("docker://team/net:1", reference(repository="team/net", tag="1")),
        ("a__b/c-d--e.f_g", reference(repository="a__b/c-d--e.f_g")),
        (
            "determinedai/pytorch-ngc-dev:0736b6d",
            reference(repository="determinedai/pytorch-ngc-dev", tag="0736b6d"),
        ),
        (
            "nvcr.io/nvidia/pytorch:24.07-py3",
            reference(registry="nvcr.io", repository="nvidia/pytorch", tag="24.07-py3"),
        ),
        ("localhost/mine", reference(registry="localhost", repository="mine")),
        ("localhost:5000/mine", reference(registry="localhost:5000", repository="mine")),
        ("node7:5000/mine:x", reference(registry="node7:5000", repository="mine", tag="x")),
        ("[::1]:5000/mine", reference(registry="[::1]:5000", repository="mine")),
        (f"net@{DIGEST}", reference(repository="library/net", tag="", digest=DIGEST)),
        (f"net:1@{DIGEST}", reference(repository="library/net", tag="1", digest=DIGEST)),
        ("oras://r.io/net:1", reference(transport="oras", registry="r.io", repository="net", tag="1")),
        ("library://alpine", reference(transport="library", registry="", repository="alpine")),
        ("/images/net.sif", ImageReference(transport="path", path="/images/net.sif")),
        (
            "docker-archive:/images/net.tar",
            ImageReference(transport="docker-archive", path="/images/net.tar"),
        ),
        ("oci:/images/net", ImageReference(transport="oci", path="/images/net")),
    ],
)  # fmt: skip
def test_what_a_name_means(text: str, expected: ImageReference) -> None:
    assert parse_image(text) == expected
    assert parse_image(expected.url) in (expected, reference_without_tag(expected))


def reference_without_tag(image: ImageReference) -> ImageReference:
    """With a digest the tag says nothing, and the name in full leaves it out."""
    parts = {name: getattr(image, name) for name in ImageReference.__slots__}
    return ImageReference(**{**parts, "tag": ""})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("my image", "holds a space or a control character"),
        ("net\n", "holds a space or a control character"),
        ("Team/Net", 'must be in lower case: "team/net"'),
        ("docker://Net", 'must be in lower case: "net"'),
        ("team//net", 'holds what no name of an image may: "team//net"'),
        ("-net", 'holds what no name of an image may: "-net"'),
        ("net:", 'has no tag after the ":": ""'),
        ("net:a/b", 'has no tag after the ":": "a/b"'),
        (":1", "names no image, only a registry or a tag"),
        ("r.io/", "names no image, only a registry or a tag"),
        ("net@", 'has no digest after the "@": sha256: and 64 hexadecimal digits'),
        ("net@sha256:abc", 'has no digest after the "@": sha256: and 64 hexadecimal digits'),
        (
            "https://r.io/net",
            'begins with "https://", which is none of docker://, oras://, library://, shub://',
        ),
        ("./net.sif", "names a file: its path must be absolute"),
        ("~/net.sif", "names a file: its path must be absolute"),
        ("oci-archive:net.tar", "names a file: its path must be absolute"),
        ("/images/../etc", 'names a file: its path must be without ".."'),
        ("a" * 256, "has 256 characters, more than 255"),
        ("a" * 5000, "has 5000 characters, more than 4096"),
        ("--privileged", 'holds what no name of an image may: "--privileged"'),
        ("docker://--help", 'holds what no name of an image may: "--help"'),
    ],
)
def test_what_is_none_is_told_why(text: str, why: str) -> None:
    with pytest.raises(BadImageName) as caught:
        parse_image(text)
    assert str(caught.value) == why


@given(st.text(max_size=80) | st.text(alphabet="ab0.:/@-_~[]", max_size=40))
def test_whatever_is_written_is_a_name_or_told_why(text: str) -> None:
    try:
        image = parse_image(text)
    except BadImageName:
        return
    assert not image.url.startswith("-"), "it goes into command lines"
    assert parse_image(image.url).name == image.name
