"""The `log_policies` section: what to do when a line of a task's log matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)

from master.core.expconf.models.schema import Items, Section
from master.core.patterns import Pattern

MAX_POLICIES = 100
"""Each has an expression to compile, and every line of a log to match."""
STORED = "stored"
"""The context in which a configuration is validated that was accepted before, maybe by other rules."""
BUILT_IN: tuple[Mapping[str, Any], ...] = (
    {"name": "CUDA OOM", "pattern": ".*CUDA out of memory.*"},
    {"name": "ECC Error", "pattern": ".*uncorrectable ECC error encountered.*"},
)


class LogPolicy(Section):
    """A name alone disables the policy of that name."""

    name: str | None = None
    """Unique."""
    pattern: str | None = None
    """A regular expression in the syntax of RE2."""
    action: Literal["cancel_retries", "exclude_node"] | None = None
    """cancel_retries: the next failure is final; exclude_node: not on that machine again. None: shown with the run."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str | None, info: ValidationInfo) -> str | None:
        if info.context == STORED:
            return value
        try:
            Pattern(value or "")
        except ValueError as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _says_something(self) -> LogPolicy:
        if self.name is None and (self.pattern is None or self.action is None):
            raise ValueError(
                '"name" must be set, and "pattern" is also required unless you intend to disable '
                "an existing policy"
            )
        return self


def check_number(policies: Any, info: ValidationInfo) -> Any:
    if (
        info.context != STORED
        and isinstance(policies, list | tuple)
        and len(policies) > MAX_POLICIES
    ):
        raise ValueError(f"{len(policies)} log policies; the maximum is {MAX_POLICIES}")
    return policies


def check_names(policies: Sequence[LogPolicy]) -> Sequence[LogPolicy]:
    names = Counter(policy.name for policy in policies if policy.name is not None)
    twice = sorted(name for name, times in names.items() if times > 1)
    if twice:
        quoted = ", ".join(f'"{name}"' for name in twice)
        raise ValueError(f"log_policies have duplicated names {quoted}")
    return policies


LogPolicies: TypeAlias = Annotated[
    Items[LogPolicy], AfterValidator(check_names), BeforeValidator(check_number)
]


def merge_log_policies(high: Iterable[Any], low: Iterable[Any]) -> list[Any]:
    """Union by name; unnamed ones by action and pattern. `high` wins and comes first."""
    high = without_duplicates(high)
    taken = {_identity(policy) for policy in high}
    return high + [policy for policy in low if _identity(policy) not in taken]


def without_duplicates(policies: Iterable[Any]) -> list[Any]:
    """Unnamed ones that say the same, once. Those with the same name stay: `check_names` refuses them."""
    seen: set[object] = set()
    result: list[Any] = []
    for policy in policies:
        identity = _identity(policy)
        unnamed = isinstance(identity, tuple) and identity[0] == _UNNAMED
        if not (unnamed and identity in seen):
            result.append(policy)
        seen.add(identity)
    return result


_UNNAMED = "rule"


def _identity(policy: Any) -> object:
    if not isinstance(policy, Mapping):
        return repr(policy)
    if policy.get("name") is not None:
        return ("name", str(policy["name"]))
    return (_UNNAMED, str(policy.get("action")), str(policy.get("pattern")))
