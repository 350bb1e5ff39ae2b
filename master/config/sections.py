"""The sections of master.yaml that are only settings: log, database, security, sign-on, telemetry, ..."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from agent_bootstrap.container_options import OsId, OsName
from master.config.schedules import trigger_of
from master.core.expconf.models.durations import PositiveDuration
from master.core.expconf.models.schema import FreeMap, Integer, Item, Items, Port, Positive, Section
from master.core.roles.catalogue import FIRST_OWN_ID, FIXED_ROLES
from master.core.roles.permissions import Permission
from windlass.base.no_effect import NoEffect

UNLIMITED_TOKEN_DAYS = 106751
"""What -1 means for token lifespans: the most days that 64 bits of nanoseconds can hold."""
SQLITE_FILE = "windlass.db"

Secret: TypeAlias = Annotated[str, Field(repr=False)]
"""Not shown by `repr`; `masked` hides it by the name of its key."""
OptionalSecret: TypeAlias = Annotated[str | None, Field(repr=False)]


class LogSection(Section):
    """The master's own log, on stderr."""

    level: Literal["trace", "debug", "info", "warn", "error", "fatal"] = "info"
    """The least important level that is written."""
    color: bool = True
    """Colours where stderr is a terminal; JSON lines elsewhere, always."""


_PACKAGED = NoEffect("it comes with the package")


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class DatabaseSection(Section):
    """SQLite in the data directory unless `url`, or `host` and `name`, say otherwise."""

    url: OptionalSecret = None
    """Our own key: any SQLAlchemy async URL."""
    user: str | None = None
    """PostgreSQL's role."""
    password: OptionalSecret = None
    """Of the role."""
    host: str | None = None
    """PostgreSQL's host; together with `name`."""
    port: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^\d{1,5}$")] = "5432"
    """PostgreSQL's port."""
    name: str | None = None
    """PostgreSQL's database; together with `host`."""
    ssl_mode: Literal["disable", "require", "verify-ca", "verify-full"] = "disable"
    """Whether connections are encrypted, and what of the server's certificate is checked."""
    ssl_root_cert: Annotated[
        str | None, NoEffect("put the file at ~/.postgresql/root.crt, or name it in PGSSLROOTCERT")
    ] = None
    """The certificate authority of PostgreSQL."""
    migrations: Annotated[str | None, _PACKAGED] = Field(default=None, exclude=True)
    """A directory of Determined's package."""
    views_and_triggers: Annotated[str | None, _PACKAGED] = Field(default=None, exclude=True)
    """A directory of Determined's package."""

    @model_validator(mode="after")
    def _one_way(self) -> DatabaseSection:
        if self.url is not None and (self.host is not None or self.name is not None):
            raise ValueError("give either url, or host and name, not both")
        if (self.host is None) != (self.name is None):
            raise ValueError("host and name go together")
        return self

    def sqlalchemy_url(self, data_dir: Path) -> str:
        if self.url is not None:
            return self.url
        if self.host is None:
            return f"sqlite+aiosqlite:///{data_dir / SQLITE_FILE}"
        login = quote(self.user or "", safe="")
        if self.password:
            login += f":{quote(self.password, safe='')}"
        at = f"{login}@" if login else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        ssl = "" if self.ssl_mode == "disable" else f"?ssl={self.ssl_mode}"
        return f"postgresql+asyncpg://{at}{host}:{self.port}/{quote(self.name or '', safe='')}{ssl}"


class Connections(Section):
    """Limits on connections that have sent no request with a valid token yet, and that the master waits for.

    Beyond a number the one that it has waited for longest is closed; others are not refused.
    """

    unauthenticated: Positive = 4096
    """How many, in all."""
    unauthenticated_per_address: Positive = 2048
    """How many from one address. All tasks behind one relay share an address, but are authenticated at once."""
    header_timeout: PositiveDuration = timedelta(seconds=10)
    """How long a request may take to send its headers, on every connection."""


class Cache(Section):
    """Files that can be made again."""

    cache_dir: str | None = None
    """A directory for them."""


class PachydermIntegration(Section):
    """The site's Pachyderm."""

    address: str = ""
    """Where it is."""


class MasterIntegrations(Section):
    """Other systems of the site."""

    pachyderm: PachydermIntegration = PachydermIntegration()
    """The site's Pachyderm."""


class Observability(Section):
    """What monitoring reads."""

    enable_prometheus: bool = True
    """Whether the master has pages for Prometheus."""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError(f'"{url}" is not an origin such as https://tasks.example.org')
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f'"{url}" must be a scheme, a host and a port alone')
    return f"{parts.scheme}://{parts.netloc}".lower()


class WebUi(Section):
    """Our own section: the pages."""

    task_origin: Annotated[str, AfterValidator(_origin)] | None = None
    """Where browsers show notebooks, TensorBoards and ports of tasks: another name for this master, such as
    `https://tasks.example.org`, or its `task_port`. None: at the master's own origin, where their pages may act as
    whoever looks at them."""
    task_port: Port | None = None
    """A second port to listen on, for a `task_origin` such as `http://gpu.example.org:8081`."""

    @model_validator(mode="after")
    def _port_has_an_origin(self) -> WebUi:
        if self.task_port is not None and self.task_origin is None:
            raise ValueError(
                f"task_port: {self.task_port} needs task_origin, the address that browsers reach it by"
            )
        return self


class MasterWebhooks(Section):
    """Calls to other systems when experiments change."""

    base_url: str = ""
    """Where links in messages lead."""
    signing_key: OptionalSecret = None
    """Signs what is sent. None: a key of the cluster's own, which `det webhook signing-key` prints."""
    allowed_targets: Items[str] = ()
    """Names of hosts, and networks such as 10.0.0.0/8, that alone may be called. Empty: all but local addresses."""


class Telemetry(Section):
    """Accepted so that files stay valid. Windlass itself reports to nobody; OpenTelemetry is the site's own."""

    enabled: bool = True
    """Whether use is reported to the makers."""
    segment_master_key: OptionalSecret = None
    """A key of a reporting service."""
    segment_webui_key: OptionalSecret = None
    """A key of a reporting service."""
    otel_enabled: bool = False
    """Whether traces go to OpenTelemetry."""
    otel_endpoint: str = "localhost:4317"
    """Where traces go."""
    cluster_id: str | None = None
    """Set by the master."""


def _check_schedule(value: str) -> str:
    trigger_of(value)
    return value


class MasterRetentionPolicy(Section):
    """How long task logs are kept."""

    log_retention_days: Annotated[Integer, Field(ge=-1, le=32767)] | None = None
    """Days from the end of a task. -1 and None: for ever. 0: at the next cleanup. Experiments may say otherwise."""
    schedule: Annotated[str, AfterValidator(_check_schedule)] | None = None
    """When old logs are deleted: a duration, or five cron fields in UTC. None: only by `det task cleanup-logs`."""


class LogoPaths(Section):
    """Files of the site's logo."""

    dark_horizontal: str | None = None
    """Wide, for dark pages."""
    dark_vertical: str | None = None
    """High, for dark pages."""
    light_horizontal: str | None = None
    """Wide, for light pages."""
    light_vertical: str | None = None
    """High, for light pages."""


class UiCustomization(Section):
    """How the pages look."""

    logo_paths: LogoPaths | None = None
    """The site's logo."""


class DefaultTask(Section):
    """Whom tasks run as on the agents' machines where no administrator linked their owner: all four keys."""

    uid: OsId
    """Number of the user."""
    gid: OsId
    """Number of the group."""
    user: OsName
    """Name of the user, which the machines need not know. `$AGENT_USER` in a `work_dir` stands for it."""
    group: OsName
    """Name of the group."""


class Tls(Section):
    """The master's certificate. With `cert` and `key`, or `self_signed`, it speaks HTTPS only."""

    cert: str = ""
    """A file with the certificate of the master, then those that sign it, in PEM form. Read again when it changes."""
    key: str = ""
    """A file with the private key of the certificate, in PEM form, without a password."""
    ca: str = ""
    """Our own key: a file with further certificates that tasks and agents trust: the authority, if it is not in `cert`,
    or the next certificate before it is used."""
    self_signed: bool = False
    """Our own key: sign a certificate here, by an authority of this master's own, instead of `cert` and `key`."""

    @field_validator("cert", "key", "ca")
    @classmethod
    def _is_path(cls, value: str) -> str:
        if "\n" in value or "-----BEGIN" in value:
            raise ValueError("must be the path of a file, not what is in it")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Tls:
        if bool(self.cert) != bool(self.key):
            missing, given = ("key", "cert") if self.cert else ("cert", "key")
            raise ValueError(
                f'{given} is "{getattr(self, given)}" and {missing} is missing: name both files, or neither'
            )
        if self.cert and self.self_signed:
            raise ValueError("give either cert and key, or self_signed: true")
        if self.ca and not self.enabled:
            raise ValueError("ca goes with cert and key, or with self_signed: true")
        return self

    @property
    def enabled(self) -> bool:
        return bool(self.cert) or self.self_signed


MIN_RSA_BITS = 1024
"""OpenSSH takes no shorter keys."""


class Ssh(Section):
    """The keys that shells are opened with."""

    key_type: Literal["RSA", "ECDSA", "ED25519"] = "ED25519"
    """Kind of the keys."""
    rsa_key_size: Annotated[Integer, Field(ge=0, le=16384)] = 0
    """Bits; for RSA 1024 to 16384."""

    @model_validator(mode="after")
    def _rsa_needs_a_size(self) -> Ssh:
        if self.key_type == "RSA" and self.rsa_key_size < MIN_RSA_BITS:
            raise ValueError(f"key_type RSA needs rsa_key_size from {MIN_RSA_BITS} to 16384")
        return self


class AssignRole(Section):
    """The role that whoever creates a workspace gets in it."""

    enabled: bool = True
    """Whether there is one."""
    role_id: Annotated[Integer, Field(gt=0)] = 2
    """Which."""


_PREFIX = "PERMISSION_TYPE_"


def _known_permissions(value: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.removeprefix(_PREFIX) for name in value)
    for name in names:
        if name not in Permission.__members__:
            raise ValueError(f"{name!r} is no permission: the page on roles lists them")
    return names


class OwnRole(Section):
    """A role beside the ten fixed ones."""

    id: Annotated[Integer, Field(ge=FIRST_OWN_ID)]
    """By which assignments name it: it must stay the same."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]
    """By which clients name it."""
    permissions: Annotated[Items[str], AfterValidator(_known_permissions)]
    """As the REST API names them, with or without `PERMISSION_TYPE_`."""


def _different_roles(own: tuple[OwnRole, ...]) -> tuple[OwnRole, ...]:
    known = {role.name.lower() for role in FIXED_ROLES}
    ids: set[int] = set()
    for role in own:
        if role.name.lower() in known or role.id in ids:
            raise ValueError(f"role {role.id} ({role.name}): its id and its name must be its own")
        known.add(role.name.lower())
        ids.add(role.id)
    return own


class Authz(Section):
    """Who may do what."""

    type: Literal["basic", "rbac"] = "basic"
    """basic: owners and administrators change things, everybody reads. rbac: what each may see and do is given by
    roles, which users and groups hold in workspaces or in the whole cluster."""
    others_work: Literal["owner", "any"] = "owner"
    """Our own key, with type basic: who changes, moves and ends experiments, commands and jobs besides administrators.
    owner: whose they are. any: every active user, as Determined's basic mode has it."""
    fallback: Annotated[Literal["basic", "rbac"], NoEffect("both types are always there")] = "basic"
    """What applies where `type` cannot."""
    rbac_ui_enabled: bool | None = None
    """Whether clients offer groups and roles. Unset: with type rbac. They can be prepared before they decide."""
    workspace_creator_assign_role: AssignRole = AssignRole()
    """The role that whoever creates a workspace gets in it, whatever the type."""
    strict_job_queue_control: bool = False
    """Whether only those with the permission CONTROL_STRICT_JOB_QUEUE (with type basic: administrators) change places
    and priorities in the job queue."""
    roles: Annotated[Items[OwnRole], AfterValidator(_different_roles)] = ()
    """Our own key: roles beside the ten fixed ones."""


Days: TypeAlias = Annotated[Integer, Field(ge=-1, le=UNLIMITED_TOKEN_DAYS)]


class TokenLifespan(Section):
    """How long access tokens of users are valid."""

    default_lifespan_days: Days = 30
    """Of a token for which nobody said. -1: without end."""
    max_lifespan_days: Days = 30
    """The longest that may be asked for. -1: without end. 0: nobody can make any."""

    @model_validator(mode="after")
    def _ordered(self) -> TokenLifespan:
        if lifespan_days(self.default_lifespan_days) > lifespan_days(self.max_lifespan_days):
            raise ValueError("default_lifespan_days must not be more than max_lifespan_days")
        return self


def lifespan_days(value: int) -> int:
    return UNLIMITED_TOKEN_DAYS if value == -1 else value


def _networks(value: tuple[str, ...]) -> tuple[str, ...]:
    for one in value:
        try:
            ipaddress.ip_network(one, strict=False)
        except ValueError:
            raise ValueError(
                f'"{one}" is no address or network such as 10.0.0.5 or 10.0.0.0/24'
            ) from None
    return value


class MasterSecurity(Section):
    """Users, passwords and rights."""

    default_task: DefaultTask | None = None
    """Whom tasks run as where no administrator linked their owner. None: an agent that is root runs them as a user
    without rights, every other agent as itself."""
    tls: Tls = Tls()
    """The master's certificate. Without one it speaks plain HTTP."""
    ssh: Ssh = Ssh()
    """The keys that shells are opened with."""
    authz: Authz = Authz()
    """Who may do what."""
    initial_user_password: Secret = ""
    """For the users `determined` and `admin`, for as long as they have none. Without it the master makes a random one
    and leaves it in the file `initial-password` of its data folder."""
    allow_empty_password: bool = False
    """Our own key: accounts without a password may log in from this machine. Only with a loopback `host`."""
    allowed_hosts: Items[str] = ()
    """Our own key: further names by which browsers reach the master; `.example.org` stands for all below it."""
    trusted_proxies: Annotated[Items[str], AfterValidator(_networks)] = ()
    """Our own key: addresses and networks of the proxies before the master. What they say of a caller
    (`X-Forwarded-For`, `-Proto`, `-Host`) is believed, of nobody else."""
    token: TokenLifespan = TokenLifespan()
    """How long access tokens of users are valid."""


NO_SIGN_ON = "SAML, OIDC, SCIM and OAuth clients are not part of Windlass; users log in with passwords or access tokens"


def refuse_if_enabled(value: Any) -> Any:
    """A sign-on section that is switched on but would not be there."""
    if isinstance(value, dict) and value.get("enabled"):
        raise ValueError(f"{NO_SIGN_ON}: set enabled to false")
    return value


SignOn: TypeAlias = Annotated[FreeMap, BeforeValidator(refuse_if_enabled)]
"""scim, saml, oidc, det_cloud: kept as written, refused when enabled."""


def _default_logging(value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "elastic":
        raise ValueError("logging type elastic is not supported yet")
    return value


class Logging(Section):
    """Where task logs go: our own log store."""

    type: Literal["default"] = "default"
    """elastic is refused."""


TaskLogging: TypeAlias = Annotated[Logging, BeforeValidator(_default_logging)]


class ProxiedServer(Item):
    """Another server behind the master's address."""

    path_prefix: str
    """Which paths go there."""
    destination: str
    """URL with a port."""


class ExternalSessions(Section):
    """Sessions that another service opens."""

    login_uri: str = ""
    """Where users log in."""
    logout_uri: str = ""
    """Where users log out."""
    invalidation_uri: str = ""
    """Tells which sessions have ended."""
    jwt_key: Secret = ""
    """Verifies the sessions."""
    org_id: str = ""
    """The organisation they must belong to."""
    cluster_id: str = ""
    """The cluster they must belong to."""


_HOSTED = NoEffect("it belongs to Determined's hosted service")


class Internal(Section):
    """Keys of Determined's hosted service."""

    audit_logging_enabled: Annotated[bool, _HOSTED] = False
    """Whether calls are logged for audits."""
    external_sessions: Annotated[ExternalSessions, _HOSTED] = ExternalSessions()
    """Sessions that another service opens."""
    proxied_servers: Annotated[Items[ProxiedServer], _HOSTED] = ()
    """Other servers behind the master's address."""
