"""Run by the published client's Python: prints its enumerations, and the fields of its classes, as JSON.

Each field: its name -> [is required, name of its enumeration or null].
"""

from __future__ import annotations

import enum
import inspect
import json
import re

from determined.common.api import bindings

classes = {name: value for name, value in vars(bindings).items() if inspect.isclass(value)}
enums = {name: value for name, value in classes.items() if issubclass(value, enum.Enum)}


def fields(shape: type) -> dict[str, tuple[bool, str | None]]:
    parameters = inspect.signature(shape.__init__).parameters.values()
    return {
        p.name: (
            p.default is p.empty,
            next((word for word in re.findall(r"\w+", str(p.annotation)) if word in enums), None),
        )
        for p in parameters
        if p.kind is p.KEYWORD_ONLY
    }


print(
    json.dumps(
        {
            "enums": {name: sorted(m.value for m in enums[name]) for name in sorted(enums)},
            "classes": {n: fields(c) for n, c in classes.items() if hasattr(c, "from_json")},
        }
    )
)
