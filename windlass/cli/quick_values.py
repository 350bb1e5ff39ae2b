"""Options that are not given, and plain texts and numbers, without pydantic: loading it took a third of `list`.

typer converts the value of each parameter by a model of pydantic, also that of an option that was not given. Here only
what needs a model gets one. Another release of typer may be built otherwise: then nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typer import core

if TYPE_CHECKING:
    from typer._click.core import Context


def install() -> None:
    """For all commands of this process."""
    try:
        from typer._coercion import RuntimeParam

        own: Callable[[Any], RuntimeParam] = core._TyperParameter.get_runtime_param
    except (ImportError, AttributeError):
        return

    @dataclass(frozen=True)
    class Quick(RuntimeParam):
        """Its base answers for what was not given."""

        own: Callable[[], RuntimeParam]

        def _coerce_value(self, value: Any, param: core._TyperParameter, ctx: Context) -> Any:
            if _is_plain(value, self.annotation, self.parameter_info):
                return self.annotation(value)
            return self.own()._coerce_value(value, param, ctx)

    def quick(parameter: core._TyperParameter) -> RuntimeParam:
        described = parameter.type_descriptor
        return Quick(described.parameter_info, described.annotation, own=lambda: own(parameter))

    core._TyperParameter.get_runtime_param = quick  # type: ignore[assignment, method-assign]


def _is_plain(value: Any, annotation: Any, info: Any) -> bool:
    """A text for str, digits for int: without limits, and without a parser of the command's own."""
    if type(value) is not str or any(getattr(info, own, None) for own in ("parser", "click_type")):
        return False
    if annotation is int:
        limited = info.min is not None or info.max is not None
        return not limited and value.isascii() and value.isdigit()
    return annotation is str
