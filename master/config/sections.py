"""The sections of master.yaml that are only settings: log, database, security, sign-on, telemetry, ..."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from master.core.expconf.schema import FreeMap, Integer, Item, Items, NonNegative, Section
from windlass.base.durations import parse_duration

UNLIMITED_TOKEN_DAYS = 106751
"""What -1 means for token lifespans: the most days that 64 bits of nanoseconds can hold."""
SQLITE_FILE = "windlass.db"

Secret: TypeAlias = Annotated[str, Field(repr=False)]
"""Not shown by `repr`; `masked` hides it by the name of its key."""
OptionalSecret: TypeAlias = Annotated[str | None, Field(repr=False)]


class Log(Section):
    level: Literal["trace", "debug", "info", "warn", "error", "fatal"] = "info"
    color: bool = True


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Database(Section):
    """SQLite in the data directory unless `url`, or `host` and `name`, say otherwise."""

    url: OptionalSecret = None
    """Our own key: any SQLAlchemy async URL."""
    user: str | None = None
    password: OptionalSecret = None
    host: str | None = None
    port: Annotated[str, BeforeValidator(_as_text), Field(pattern=r"^\d{1,5}$")] = "5432"
    name: str | None = None
    ssl_mode: Literal["disable", "require", "verify-ca", "verify-full"] = "disable"
    ssl_root_cert: str | None = None
    migrations: str | None = Field(default=None, exclude=True)
    """Accepted and ignored, as `views_and_triggers`."""
    views_and_triggers: str | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _one_way(self) -> Database:
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


class Cache(Section):
    cache_dir: str | None = None


class PachydermIntegration(Section):
    address: str = ""


class MasterIntegrations(Section):
    pachyderm: PachydermIntegration = PachydermIntegration()


class Observability(Section):
    enable_prometheus: bool = True


class MasterWebhooks(Section):
    base_url: str = ""
    signing_key: OptionalSecret = None
    """None: drawn anew at each start."""


class Telemetry(Section):
    """Accepted so that files stay valid. Windlass itself reports to nobody; OpenTelemetry is the site's own."""

    enabled: bool = True
    segment_master_key: OptionalSecret = None
    segment_webui_key: OptionalSecret = None
    otel_enabled: bool = False
    otel_endpoint: str = "localhost:4317"
    cluster_id: str | None = None


_CRON_FIELD = re.compile(r"[0-9A-Za-z*/,?#-]+")


def _check_schedule(value: str) -> str:
    fields = value.split()
    if len(fields) == 5 and all(_CRON_FIELD.fullmatch(field) for field in fields):
        return value
    try:
        seconds = parse_duration(value).total_seconds()
    except ValueError:
        seconds = 0
    if seconds <= 0:
        raise ValueError(f'"{value}" is neither a duration such as "24h" nor five cron fields')
    return value


class MasterRetentionPolicy(Section):
    log_retention_days: Annotated[Integer, Field(ge=-1, le=32767)] | None = None
    """-1 and None: for ever. 0: at the next cleanup."""
    schedule: Annotated[str, AfterValidator(_check_schedule)] | None = None


class LogoPaths(Section):
    dark_horizontal: str | None = None
    dark_vertical: str | None = None
    light_horizontal: str | None = None
    light_vertical: str | None = None


class UiCustomization(Section):
    logo_paths: LogoPaths | None = None


class DefaultTask(Section):
    """Who tasks run as where nobody said otherwise."""

    uid: NonNegative = 0
    gid: NonNegative = 0
    user: str = "root"
    group: str = "root"


class Tls(Section):
    cert: str = ""
    key: Secret = ""

    @model_validator(mode="after")
    def _not_yet(self) -> Tls:
        if bool(self.cert) != bool(self.key):
            raise ValueError("cert and key go together")
        if self.cert:
            raise ValueError(
                "the master does not serve TLS yet: put a TLS proxy before it and remove this section"
            )
        return self


class Ssh(Section):
    key_type: Literal["RSA", "ECDSA", "ED25519"] = "ED25519"
    rsa_key_size: Annotated[Integer, Field(ge=0, le=16384)] = 0

    @model_validator(mode="after")
    def _rsa_needs_a_size(self) -> Ssh:
        if self.key_type == "RSA" and self.rsa_key_size < 1:
            raise ValueError("key_type RSA needs rsa_key_size from 1 to 16384")
        return self


class AssignRole(Section):
    enabled: bool = True
    role_id: Annotated[Integer, Field(gt=0)] = 2


def _basic_only(value: str) -> str:
    """Falling back to weaker rules without a word would open what the file closes."""
    if value == "rbac":
        raise ValueError("authz type rbac is not supported yet")
    return value


class Authz(Section):
    type: Annotated[Literal["basic", "rbac"], AfterValidator(_basic_only)] = "basic"
    fallback: Literal["basic", "rbac"] = "basic"
    rbac_ui_enabled: bool | None = None
    workspace_creator_assign_role: AssignRole = AssignRole()
    strict_job_queue_control: bool = False


Days: TypeAlias = Annotated[Integer, Field(ge=-1, le=UNLIMITED_TOKEN_DAYS)]


class TokenLifespan(Section):
    default_lifespan_days: Days = 30
    max_lifespan_days: Days = 30

    @model_validator(mode="after")
    def _ordered(self) -> TokenLifespan:
        if _days(self.default_lifespan_days) > _days(self.max_lifespan_days):
            raise ValueError("default_lifespan_days must not be more than max_lifespan_days")
        return self


def _days(value: int) -> int:
    return UNLIMITED_TOKEN_DAYS if value == -1 else value


class MasterSecurity(Section):
    default_task: DefaultTask = DefaultTask()
    tls: Tls = Tls()
    ssh: Ssh = Ssh()
    authz: Authz = Authz()
    initial_user_password: Secret = ""
    """For the users `determined` and `admin`, at the first start only."""
    token: TokenLifespan = TokenLifespan()


def refuse_if_enabled(value: Any) -> Any:
    """A sign-on section that is switched on but would not be there."""
    if isinstance(value, dict) and value.get("enabled"):
        raise ValueError("single sign-on is not supported yet: set enabled to false")
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


TaskLogging: TypeAlias = Annotated[Logging, BeforeValidator(_default_logging)]


class ProxiedServer(Item):
    path_prefix: str
    destination: str


class ExternalSessions(Section):
    login_uri: str = ""
    logout_uri: str = ""
    invalidation_uri: str = ""
    jwt_key: Secret = ""
    org_id: str = ""
    cluster_id: str = ""


class Internal(Section):
    audit_logging_enabled: bool = False
    external_sessions: ExternalSessions = ExternalSessions()
    proxied_servers: Items[ProxiedServer] = ()
