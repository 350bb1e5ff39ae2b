"""Options of `det deploy aws up`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from pydantic import AfterValidator, Field

from windlass.base.no_effect import NoEffect
from windlass.deploy.cloud.field_types import (
    CLUSTER_ID,
    Price,
    once,
    one_of,
    pairs,
    shaped,
)
from windlass.deploy.cloud.options import Cli, CommonOptions

GOV_REGIONS = ("us-gov-east-1", "us-gov-west-1")
REGIONS = (
    *("af-south-1", "ap-east-1", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3"),
    *("ap-south-1", "ap-south-2", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3"),
    *("ap-southeast-4", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2"),
    *("eu-north-1", "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3"),
    *("il-central-1", "me-central-1", "me-south-1", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", *GOV_REGIONS),
)
DEPLOYMENT_TYPES = ("simple-rds", "secure", "efs", "fsx", "govcloud")
_SIZES = (
    *("nano", "micro", "small", "medium", "large", "xlarge", "metal"),
    *(
        f"{n}xlarge"
        for n in (2, 3, 4, 6, 8, 9, 10, 12, 16, 18, 24, 32, 36, 48, 56, 64, 72, 96, 112, 192)
    ),
)
_OUR_TAGS = ("deployment-type", "managed-by", "Name")
_LOGS = NoEffect("the master keeps the logs of tasks itself; nothing goes to CloudWatch")
_GENAI = NoEffect("there is no GenAI component")


def _cluster_id(value: str) -> str:
    if not CLUSTER_ID.fullmatch(value):
        raise ValueError(f'"{value}" must begin with a letter and have only letters, digits and -')
    if len(value) > 40:
        raise ValueError(f'"{value}" has {len(value)} characters: 40 at most fit into names of AWS')
    return value


def _instance_type(value: str) -> str:
    family, dot, size = value.partition(".")
    known = dot and (size in _SIZES or re.fullmatch(r"metal-\d+xl", size))
    if known and re.fullmatch(r"[a-z]+\d*[a-z0-9-]*", family):
        return value
    if not dot:
        raise ValueError(f'"{value}" is no instance type: write FAMILY.SIZE, such as m5.xlarge')
    near = get_close_matches(size, _SIZES, n=1)
    raise ValueError(
        f'"{value}" is no instance type: '
        + (f'did you mean "{family}.{near[0]}"?' if near else "write it like m5.xlarge")
    )


def _deployment_type(value: str) -> str:
    if value == "genai":
        raise ValueError("genai: there is no GenAI component; efs makes the same network and files")
    return value


def _tag(key: str, value: str) -> str:
    if key in _OUR_TAGS or key.startswith(("aws:", "windlass:", "det-")):
        return "this key is reserved"
    return "" if len(key) <= 128 and len(value) <= 256 else "at most 128 and 256 characters"


InstanceType: TypeAlias = Annotated[str, AfterValidator(_instance_type)]
Subnet: TypeAlias = Annotated[
    str, shaped(r"subnet-[0-9a-f]+", "the id of a subnet, such as subnet-0a1b2c3d")
]


class AwsOptions(CommonOptions):
    """What a cluster on AWS is to be."""

    placeholders: ClassVar[dict[str, object]] = {"cluster_id": "x", "region": "us-east-1"}

    cluster_id: Annotated[str, AfterValidator(_cluster_id)]
    """Name of the cluster, in everything that it makes."""
    region: Annotated[str, one_of("region of AWS", REGIONS)]
    """Default: AWS_REGION, AWS_DEFAULT_REGION, else that of the profile."""
    profile: str = ""
    """Profile of AWS's shared files."""
    keypair: str = ""
    """Key pair for SSH. Default: none, nobody logs in by SSH."""
    deployment_type: Annotated[
        str,
        AfterValidator(_deployment_type),
        one_of("deployment type", DEPLOYMENT_TYPES),
        Field(description=", ".join(DEPLOYMENT_TYPES) + "."),
    ] = "simple-rds"
    master_instance_type: InstanceType = "m6i.large"
    """Machine of the master."""
    aux_agent_instance_type: Annotated[InstanceType, Cli(names=("--cpu-agent-instance-type",))] = (
        "m5.xlarge"
    )
    """Machines of aux-pool, for work without GPUs."""
    compute_agent_instance_type: Annotated[
        InstanceType, Cli(names=("--gpu-agent-instance-type",))
    ] = "g4dn.xlarge"
    """Machines of compute-pool."""
    compute_agent_slots: Annotated[int | None, Field(ge=0, le=128)] = None
    """GPUs of such a machine, if its type is not in our tables."""
    agent_subnet_id: Annotated[tuple[Subnet, ...], once("subnet"), Cli(metavar="SUBNET")] = ()
    """Put the machines of pools into this subnet. Repeat it for more zones. simple-rds only."""
    db_instance_type: Annotated[
        str, shaped(r"db\.[a-z0-9-]+\.[a-z0-9]+", "a class of RDS, such as db.m7g.large")
    ] = "db.m7g.large"
    """Machine of the managed database."""
    db_size: Annotated[int, Field(ge=20, le=65536)] = 20
    """Its disk, in GB."""
    db_snapshot: str = ""
    """Make the managed database from this snapshot."""
    spot: Annotated[bool, Cli(plain=True)] = False
    """Buy spot machines for compute-pool."""
    spot_max_price: Price = ""
    """In USD per hour. Default: the price on demand."""
    master_tls_cert: Path | None = None
    """File with the master's certificate."""
    master_tls_key: Path | None = None
    """File with its private key."""
    master_cert_name: str = ""
    """Name in that certificate, if it is not the address."""
    efs_id: Annotated[
        str, shaped(r"fs-[0-9a-f]+", "the id of a file system, such as fs-0a1b2c3d")
    ] = ""
    """Mount this EFS, with --deployment-type efs. Default: a new one."""
    fsx_id: Annotated[
        str, shaped(r"fs-[0-9a-f]+", "the id of a file system, such as fs-0a1b2c3d")
    ] = ""
    """Mount this FSx for Lustre, with --deployment-type fsx. Default: a new one."""
    fsx_mount_name: Annotated[
        str, shaped(r"[a-z0-9]{1,8}", "the mount name of an FSx for Lustre")
    ] = ""
    """Mount name of that FSx. Default: asked of AWS."""
    tf_state_bucket: Annotated[
        str, shaped(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "the name of a bucket of S3")
    ] = ""
    """Keep Terraform's state in this bucket of S3. It is made unless it exists."""
    add_tag: Annotated[tuple[str, ...], pairs("tag", _tag), Cli(metavar="KEY=VALUE")] = ()
    """Tag everything. May be repeated."""
    docker_user: str = ""
    """User of Docker Hub, for images of tasks."""
    docker_pass: Annotated[str, Field(repr=False)] = ""
    """Its password or token."""
    notebook_timeout: Annotated[int | None, Field(ge=1)] = None
    """End notebooks that are idle for so many seconds."""
    enable_cors: Annotated[bool, Cli(plain=True)] = False
    """Let pages of other origins use the API."""
    shut_down_agents_on_connection_loss: bool = True
    """Let machines end themselves that cannot reach the master."""
    update_terminate_agents: bool = False
    """End the machines of pools before an update. Default: they and their work go on."""
    log_group_prefix: Annotated[str, Cli(hidden=True), _LOGS] = "determined"
    retain_log_group: Annotated[bool, Cli(hidden=True, plain=True), _LOGS] = False
    agent_reattach_enabled: Annotated[
        bool,
        Cli(hidden=True, text=True),
        NoEffect("it is always on: tasks outlive a lost connection"),
    ] = False
    agent_reconnect_attempts: Annotated[
        int, Cli(hidden=True), NoEffect("an agent tries for as long as its machine lives")
    ] = 5
    agent_reconnect_backoff: Annotated[
        int, Cli(hidden=True), NoEffect("an agent tries for as long as its machine lives")
    ] = 5
    genai_version: Annotated[str, Cli(hidden=True), _GENAI] = ""
    genai_shared_fs_mount_path: Annotated[str, Cli(hidden=True), _GENAI] = ""

    def conflicts(self) -> Iterator[tuple[str, str]]:
        yield from super().conflicts()
        yield from self._conflicts_of_type()
        if bool(self.docker_user) != bool(self.docker_pass):
            yield "docker_user", "goes with --docker-pass: give both, or neither"
        if self.spot_max_price and not self.spot:
            yield "spot_max_price", "goes with --spot"
        if self.db_snapshot and self.database == "local":
            yield "db_snapshot", "goes with --database managed"
        yield from self._conflicts_of_tls()

    def _conflicts_of_type(self) -> Iterator[tuple[str, str]]:
        kind = self.deployment_type
        if (kind == "govcloud") != (self.region in GOV_REGIONS):
            yield (
                "deployment_type",
                f"{kind} does not go with --region {self.region}"
                + (
                    ": use govcloud"
                    if self.region in GOV_REGIONS
                    else f": {' or '.join(GOV_REGIONS)}"
                ),
            )
        if self.agent_subnet_id and kind not in ("simple-rds", "govcloud"):
            yield (
                "agent_subnet_id",
                f"--deployment-type {kind} makes its own subnets: leave one of them out",
            )
        for name in ("efs", "fsx"):
            if getattr(self, f"{name}_id") and kind != name:
                yield f"{name}_id", f"goes with --deployment-type {name}, not {kind}"
        if self.fsx_mount_name and not self.fsx_id:
            yield "fsx_mount_name", "goes with --fsx-id"
        if kind == "secure":
            if not self.keypair:
                yield "keypair", "is missing: secure is reached through a bastion, by SSH"
            if not self.ssh_cidr:
                yield "inbound_cidr", "is missing: say who may reach the bastion of secure by SSH"

    def _conflicts_of_tls(self) -> Iterator[tuple[str, str]]:
        files = {"master_tls_cert": self.master_tls_cert, "master_tls_key": self.master_tls_key}
        for name, path in files.items():
            if path is not None and not path.is_file():
                yield name, f"{path}: no such file"
            if path is None and any(files.values()):
                yield name, "is missing: give the certificate and its key, or neither"
            if path is not None and not self.tls:
                yield name, "does not go with --no-tls"
        if self.master_cert_name and not self.master_tls_cert:
            yield "master_cert_name", "goes with --master-tls-cert"

    @property
    def is_private(self) -> bool:
        return self.deployment_type == "secure"
