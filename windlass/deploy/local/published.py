"""Options of the published `det deploy local` that mean nothing here: accepted, with a warning that says why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from windlass import DETERMINED_VERSION, __version__
from windlass.base.errors import InvalidArgument
from windlass.base.packages import DISTRIBUTION

NO_IMAGES = "a local cluster runs as processes of this installation, not from images"
NO_EFFECT: Mapping[str, str] = {
    "--image-repo-prefix": NO_IMAGES,
    "--enterprise-edition": "there is one edition",
    "--db-password": "the database is a file that only you can read; that of a PostgreSQL server belongs into "
    "`db` of master.yaml",
    "--master-name": "a cluster has one master; --cluster-name tells clusters apart",
    "--no-preflight-checks": "the checks of `local` take no time, and none needs Docker",
    "--no-wait-for-master": "a local cluster is up when its master answers",
}
"""Why; it completes "OPTION has no effect: "."""


NO_EFFECT_IN_CLOUDS: Mapping[str, str] = {
    "--image-repo-prefix": "the master's machine installs a package (--package), not an image",
}


def warnings_for(given: Mapping[str, object], why: Mapping[str, str] = NO_EFFECT) -> Iterator[str]:
    """One for each option without effect that was given (neither None nor False)."""
    for option, value in given.items():
        if value not in (None, False):
            yield f"{option} has no effect: {why[option]}"


def check_version(wanted: str | None) -> None:
    """Raises InvalidArgument for a version that is not this one."""
    if wanted not in (None, __version__, DETERMINED_VERSION):
        raise InvalidArgument(
            f"--det-version {wanted}: this is Windlass {__version__}, which speaks the API of Determined "
            f"{DETERMINED_VERSION}; for another release install it (pip install '{DISTRIBUTION}==VERSION')"
        )
