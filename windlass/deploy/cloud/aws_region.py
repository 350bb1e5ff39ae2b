"""The region of AWS that was not named: as AWS's own tools find it."""

from __future__ import annotations

import configparser
import os
from pathlib import Path


def region_of(profile: str | None) -> str | None:
    """Of the environment, else of the profile in AWS's shared file."""
    environment = os.environ
    named = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    return named or _of_profile(profile or environment.get("AWS_PROFILE") or "default")


def _of_profile(profile: str) -> str | None:
    path = Path(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser()
    sections = configparser.ConfigParser(interpolation=None)
    try:
        sections.read(path)
    except configparser.Error:
        return None
    name = "default" if profile == "default" else f"profile {profile}"
    return sections.get(name, "region", fallback=None)
