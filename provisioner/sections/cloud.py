"""Keys that `provider` sections of every cloud have."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import AfterValidator, Field, field_validator

from agent_bootstrap.agent.options import parse_options
from agent_bootstrap.scripts.boot_files import agent_keys
from master.core.expconf.models.durations import IdlePeriod, NonNegativeDuration, PositiveDuration
from master.core.expconf.models.schema import (
    FreeMap,
    Integer,
    NonNegative,
    Number,
    Positive,
    Section,
)
from master.core.expconf.parsing.errors import nearest
from windlass.base.errors import InvalidConfig
from windlass.base.formats.json_types import JsonMapping
from windlass.base.no_effect import NoEffect

SITE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
OUR_LOGS = NoEffect("logs of agents and tasks are kept by the master")
_OWN_TIMES = NoEffect("an agent tries to connect again for as long as its machine lives")
_NO_CONTAINER = NoEffect("the agent runs on the machine, not in a container")
PUBLISHED_AGENT = "determined-agent"
"""The repository of images that have another agent."""
_ERRORS_SHOWN = NoEffect("why a job waits is always shown; it never fails because of that")


def shaped(kind: str, pattern: str | re.Pattern[str]) -> AfterValidator:
    """Empty, or as the pattern says."""
    shape = re.compile(pattern)

    def checked(value: str) -> str:
        if value and not shape.fullmatch(value):
            raise ValueError(f'"{value}" is not {kind}')
        return value

    return AfterValidator(checked)


def check_region(
    value: str | None,
    *,
    of: str,
    known: Sequence[str],
    pattern: str | re.Pattern[str],
    example: str,
) -> str | None:
    """A region that is not known yet is taken, unless it looks like one that is. Raises ValueError."""
    if value is None or value in known:
        return value
    near = nearest(value, known)
    if near or not re.fullmatch(pattern, value):
        meant = f': did you mean "{near}"?' if near else f', such as "{example}"'
        raise ValueError(f'"{value}" is no region of {of}{meant}')
    return value


class CloudSection(Section):
    """Machines that are bought by the hour, and start an agent when they boot."""

    name: Annotated[str | None, Field(pattern=SITE_NAME)] = None
    """Our own key: of the account and region, as offers, reasons and quotas show it. Sections of one account and region
    are listed with one call, in whichever pools they are. None: `aws-REGION`, `gcp-REGION`."""
    usd_per_hour: Annotated[Number, Field(ge=0)] | None = None
    """Our own key: what one machine costs on demand. None: as the price book says."""
    boot_time: PositiveDuration = timedelta(minutes=3)
    """Our own key: how long machines are expected to take until they can work, until that was learned."""
    master_url: Annotated[str, Field(pattern=r"^(https?://[^/\s]+/?)?$")] = ""
    """Where agents reach the master. Empty: as the master was told by --url."""
    master_cert_name: str = ""
    """The name in the master's certificate, where it is another than that in the URL."""
    startup_script: str = Field(default="", repr=False)
    """Run on the machine as root, once, before the agent. Machines fetch it from the master: it is not in user data. If
    it fails, the machine ends. It runs while an image is baked, and not again on machines of that image."""
    machine_script: str = Field(default="", repr=False)
    """Our own key: run on the machine as root, once, after `startup_script`: what an image cannot hold, such as
    mounts. Never while an image is baked."""
    bake_images: tuple[Annotated[str, Field(pattern=r"^\S+$")], ...] = ()
    """Our own key: container images that `det fleet bake` pulls into the machine's image with podman or docker."""
    container_startup_script: Annotated[
        str, NoEffect("the agent runs on the machine, not in a container: use startup_script")
    ] = Field(default="", repr=False)
    """Run in the container of the agent."""
    agent_docker_network: Annotated[str, _NO_CONTAINER] = "default"
    """Network of the container of the agent."""
    agent_docker_runtime: Annotated[str, _NO_CONTAINER] = "runc"
    """Runtime of the container of the agent."""
    agent_docker_image: Annotated[str, Field(pattern=r"^\S*$")] = ""
    """A container image with Windlass in /opt/windlass: machines take it from there, and run it on the machine itself.
    A login comes from `registry_auth` of the pool's task_container_defaults. Empty, or an image of determined-agent:
    the software is on the machine's image, or comes from the master."""
    agent_fluent_image: Annotated[str, OUR_LOGS] = ""
    """Of old releases."""
    agent_reconnect_attempts: Annotated[Integer, _OWN_TIMES] = 5
    """How often the agent tries."""
    agent_reconnect_backoff: Annotated[Integer, _OWN_TIMES] = 5
    """Seconds between tries."""
    agent_config_file_contents: FreeMap | None = Field(default=None, repr=False)
    """agent.yaml of the machines, but for where the master is and who they are."""

    @field_validator("agent_config_file_contents")
    @classmethod
    def _is_agent_yaml(cls, given: JsonMapping | None) -> JsonMapping | None:
        """A mistake is named here, and not by each machine that boots with it."""
        try:
            parse_options({"master_url": "https://master", **agent_keys(given or {})})
        except InvalidConfig as error:
            raise ValueError("; ".join(error.problems)) from None
        return given

    launch_error_timeout: Annotated[NonNegativeDuration, _ERRORS_SHOWN] = timedelta(0)
    """How long a failed launch counts."""
    launch_error_retries: Annotated[NonNegative, _ERRORS_SHOWN] = 0
    """How many failed launches fail waiting jobs."""
    min_instances: NonNegative | None = None
    """As in the pool."""
    max_instances: Positive | None = None
    """As in the pool."""
    max_idle_agent_period: IdlePeriod | None = None
    """As in the pool."""
    max_agent_starting_period: PositiveDuration | None = None
    """As in the pool."""

    @property
    def software_image(self) -> str:
        """That to take Windlass from; empty: none."""
        repository = self.agent_docker_image.rpartition("/")[2].partition("@")[0].partition(":")[0]
        return "" if repository == PUBLISHED_AGENT else self.agent_docker_image

    @property
    @abstractmethod
    def kind(self) -> str:
        """The machine that is bought, as offers call it."""

    @property
    def boot_s(self) -> float:
        return self.boot_time.total_seconds()


SectionT = TypeVar("SectionT", bound=CloudSection)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMachines(Generic[SectionT]):
    """One kind of machine that one pool buys from one account."""

    pool: str
    section: SectionT
    max_instances: int = 1
    """Of the pool."""
    may_stop: bool = False
    """The pool stops on-demand machines instead of ending them."""
    open_metadata: bool = False
    """Tasks may ask the metadata service, those in containers too."""
    boot: JsonMapping = field(default_factory=dict)
    """What user data is made of. Plain JSON, no secrets: it is kept with each launch."""

    def but(self, **keys: Any) -> Self:
        """With other keys of the section, which are not checked."""
        return replace(self, section=self.section.model_copy(update=keys))
