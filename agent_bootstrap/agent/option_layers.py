"""Where an agent's options come from: flags over DET_* variables over agent.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.sources.utils import parse_env_vars

from agent_bootstrap.agent.options import (
    IGNORED_KEYS,
    AgentOptions,
    TlsOptions,
    default_work_dir,
    problem,
    refuse_world_readable,
)
from windlass.base.errors import InvalidConfig

PREFIX = "DET_"
MASTER_VARIABLE = "DET_MASTER"
MASTER_VARIABLES = (MASTER_VARIABLE, f"{PREFIX}MASTER_URL", f"{PREFIX}MASTER_HOST")
_NOT_VARIABLES = ("security", "log", "default_limits")
"""Sections. Of `security.tls` each key has a variable of its own."""
_TLS_PREFIX = f"{PREFIX}SECURITY_TLS_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The options, and what an operator should know of how they were read."""

    options: AgentOptions
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layers:
    flags: Mapping[str, Any] = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    file: Path | None
    document: Mapping[str, Any] = field(repr=False)

    def origin(self, key: str) -> str:
        """Which file or variable a value was read from; empty for a flag, or a value that is missing."""
        if key in self.flags:
            return ""
        for name in _variables_of(key):
            if self.environ.get(name):
                return f"{name}: "
        return f"{self.file}: " if key in self.document else ""


def load_options(
    config_file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Loaded:
    """Merge file, variables and flags. Raises InvalidConfig: a line per problem, with the file it was read from."""
    document = read_file(config_file)
    ignored = sorted(document.keys() & IGNORED_KEYS)
    layers = _Layers(
        flags=flags or {},
        environ=environ or {},
        file=config_file,
        document={key: value for key, value in document.items() if key not in IGNORED_KEYS},
    )
    try:
        options = _LayeredOptions(layers=layers)
    except ValidationError as error:
        problems = [_origin(layers, item) + problem(item) for item in error.errors()]
        raise InvalidConfig(problems, what="agent options") from None
    return Loaded(
        options=options,
        warnings=(
            *(f"{config_file}: {key} has no effect: {IGNORED_KEYS[key]}" for key in ignored),
            *_overridden_master(options, layers),
        ),
    )


def work_dir_of(config_file: Path | None, environ: Mapping[str, str]) -> Path:
    """That alone, whatever else the file says of a master that is of no concern here. Raises InvalidConfig."""
    given = environ.get(f"{PREFIX}WORK_DIR") or read_file(config_file).get("work_dir")
    return Path(str(given)) if given else default_work_dir()


def _overridden_master(options: AgentOptions, layers: _Layers) -> Iterator[str]:
    """Where the file names a master, and a variable, perhaps of a shell that was used for `det`, another one."""
    in_file = layers.document.get("master_host") or layers.document.get("master_url")
    by = next((name for name in MASTER_VARIABLES if layers.environ.get(name)), None)
    flagged = {"master_url", "master_host"} & layers.flags.keys()
    if in_file and by and not flagged and str(in_file) != layers.environ[by]:
        yield f"the variable {by} overrides the master of {layers.file}: this agent joins {options.url}"


class _LayeredOptions(AgentOptions, BaseSettings):
    """`AgentOptions(layers=...)`, read by pydantic-settings."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=PREFIX, env_ignore_empty=True, enable_decoding=False
    )

    def __init__(self, *, layers: _Layers) -> None:
        BaseSettings.__init__(self, layers=layers)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        layers: _Layers = cast("InitSettingsSource", init_settings).init_kwargs["layers"]
        return (
            InitSettingsSource(settings_cls, dict(layers.flags)),
            _Variables(settings_cls, layers.environ),
            _File(settings_cls, layers.document),
        )


class _Variables(EnvSettingsSource):
    """DET_<KEY> for every plain key, and DET_MASTER for the URL."""

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        self._environ = environ
        super().__init__(settings_cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return parse_env_vars(self._environ, self.case_sensitive, self.env_ignore_empty)

    def __call__(self) -> dict[str, Any]:
        found = {
            key: value for key, value in super().__call__().items() if key not in _NOT_VARIABLES
        }
        if url := self._environ.get(MASTER_VARIABLE):
            found["master_url"] = url
        tls = {
            key: value
            for key in TlsOptions.model_fields
            if (value := self._environ.get(_TLS_PREFIX + key.upper()))
        }
        if tls:
            found["security"] = {"tls": tls}
        return _where_the_master_is(found, self.current_state)


class _File(PydanticBaseSettingsSource):
    def __init__(self, settings_cls: type[BaseSettings], document: Mapping[str, Any]) -> None:
        super().__init__(settings_cls)
        self._document = document

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self._document.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return _where_the_master_is(dict(self._document), self.current_state)


def _where_the_master_is(found: dict[str, Any], higher: Mapping[str, Any]) -> dict[str, Any]:
    """URL, or host and port: those of a higher layer replace the other form below."""
    gone: tuple[str, ...] = ()
    if "master_url" in higher:
        gone = ("master_host", "master_port")
    elif "master_host" in higher:
        gone = ("master_url",)
    return {key: value for key, value in found.items() if key not in gone}


def _variables_of(key: str) -> tuple[str, ...]:
    own = f"{PREFIX}{key.upper()}"
    return (MASTER_VARIABLE, own) if key == "master_url" else (own,)


def _origin(layers: _Layers, item: Any) -> str:
    path = item["loc"]
    return layers.origin(str(path[0])) if path else ""


def read_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidConfig([f"{path}: {error.strerror}"], what="agent options") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise InvalidConfig([f"{path}{where}: not valid YAML"], what="agent options") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidConfig([f"{path}: must be a mapping of keys"], what="agent options")
    if document.get("join_token"):
        refuse_world_readable(path, "config_file")
    return {str(key): value for key, value in document.items()}
