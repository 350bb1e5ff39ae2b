"""What goes wrong at an embedded site: rules in `<root>/faults.json`, put there by people and tests at any time.

    [{"call": "launch", "instance_type": "large", "kind": "quota", "message": "0 of 0", "quota": "GPUS", "number": 0},
     {"call": "list", "how": "hang"},
     {"call": "terminate", "kind": "throttled", "times": 2}]

For each call the first rule that fits counts. Without the file nothing goes wrong.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.errors import Refusal
from provisioner.types import OfferKey
from windlass.base.errors import ProviderError
from windlass.base.files import write_atomic

FAULTS = "faults.json"


class Call(StrEnum):
    OPEN = "open"
    LAUNCH = "launch"
    ANSWER = "answer"
    CANCEL = "cancel"
    LIST = "list"
    TERMINATE = "terminate"
    STOP = "stop"
    START = "start"


class How(StrEnum):
    REFUSE = "refuse"
    """Answered with an error of `kind`."""
    DROP = "drop"
    """Not carried out, and not answered."""
    LOSE = "lose"
    """Carried out, and the answer lost."""
    HANG = "hang"
    """Not answered as long as somebody waits."""
    HIDE = "hide"
    """Lists say that they do not show the zone."""


class FaultRule(BaseModel):
    """One rule. What is not given fits everything."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    call: Call
    how: How = How.REFUSE
    instance_type: str | None = None
    zone: str | None = None
    kind: BlockKind = BlockKind.UNKNOWN
    message: str = ""
    quota: str = ""
    number: float | None = None
    times: int | None = None
    """How often it still happens; None: until the rule is removed."""

    def fits(self, call: Call, key: OfferKey | None) -> bool:
        if self.call is not call or self.how is How.HIDE:
            return False
        type_, zone = (None, None) if key is None else (key.instance_type, key.zone)
        return self.instance_type in (None, type_) and self.zone in (None, zone)

    def refusal(self) -> Refusal:
        said = self.message or f"refused: {self.kind}"
        return Refusal(self.kind, said, quota=self.quota, number=self.number)


_FAULTS = TypeAdapter(list[FaultRule])


class SiteFaults:
    """Read at every call. A file that cannot be read is an error of the call, not a site without faults."""

    def __init__(self, root: Path) -> None:
        self._path = root / FAULTS

    def rules(self) -> list[FaultRule]:
        try:
            return _FAULTS.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return []
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ProviderError(f"{self._path}: {where}: {first['msg']}") from None

    def next(self, call: Call, key: OfferKey | None = None) -> FaultRule | None:
        """What goes wrong with this call; counted."""
        rules = self.rules()
        for i, rule in enumerate(rules):
            if rule.fits(call, key) and rule.times != 0:
                if rule.times is not None:
                    rules[i] = rule.model_copy(update={"times": rule.times - 1})
                    write_atomic(self._path, _FAULTS.dump_json(rules))
                return rule
        return None

    def hidden_zones(self) -> dict[str, str]:
        """Zones that lists do not show, and why."""
        return {
            rule.zone or "": rule.message or "no answer"
            for rule in self.rules()
            if rule.how is How.HIDE and rule.call is Call.LIST
        }
