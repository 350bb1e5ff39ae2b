"""Recipes of images for tasks: `windlass agent recipe cpu | podman build -t NAME -`."""

from __future__ import annotations

from pathlib import Path

RECIPES = ("cpu", "cuda")


def recipe(name: str) -> str:
    """The text of a Containerfile. `name`: one of `RECIPES`."""
    return Path(__file__).with_name(f"{name}.Containerfile").read_text(encoding="utf-8")
