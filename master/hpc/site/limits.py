"""Limits of accounts and QOS, as Slurm's accounting tells of them, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

OF_ACCOUNTS = {
    "maxsubmit": "{} jobs that wait or run",
    "maxjobs": "{} running jobs",
    "grptres": "{} for all of its jobs",
    "maxtres": "{} for one job",
    "maxwall": "{} for one job",
}
"""Field of `sacctmgr show assoc` -> what it limits."""
OF_QOS = {
    "name": "",
    "maxsubmitpu": "{} jobs of a user that wait or run",
    "maxjobspu": "{} running jobs of a user",
    "maxtrespu": "{} for a user",
    "grptres": "{} for all of its jobs",
    "maxtres": "{} for one job",
    "maxwall": "{} for one job",
}
"""The same of `sacctmgr show qos`."""


def limits_in_words(fields: Mapping[str, str], values: Sequence[str]) -> tuple[str, ...]:
    """Of one line, without those that are not set."""
    return tuple(_in_words(fields, values))


def limits_of_qos(text: str) -> dict[str, tuple[str, ...]]:
    """Of `sacctmgr -n -P show qos format=...`: by name, without QOS that limit nothing."""
    found = {}
    for line in text.splitlines():
        words = line.strip().split("|")
        if words[0] and (limits := limits_in_words(OF_QOS, words)):
            found[words[0]] = limits
    return found


def _in_words(fields: Mapping[str, str], values: Sequence[str]) -> Iterator[str]:
    for form, value in zip(fields.values(), values, strict=False):
        if form and value:
            yield form.format(value)
