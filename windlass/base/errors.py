"""Every error that crosses a module border.

WindlassError
├── InvalidArgument          the caller sent something that cannot be right
│   └── InvalidConfig        a configuration with one or more named problems
├── Unauthenticated          no valid token or wrong password
├── PermissionDenied         known, but not allowed
├── NotFound                 no such thing
├── InvalidState             the thing is in a state that does not allow it
├── Conflict                 somebody else changed it or has it already
├── Unsatisfiable            no agent or offer could ever hold the request
│   └── Unfulfillable        larger than any agent, and it must run on one
├── CapacityError            the provider has none right now
├── QuotaError               the provider's account limit is reached
├── ProviderAuthError        the provider refuses our credentials or permissions
├── ProviderError            anything else a provider answered
├── BatchSystemError         Slurm or PBS said no
├── StorageError             a checkpoint storage cannot do what it should
│   ├── StorageDenied        missing, wrong or expired credentials, or no right to do it
│   ├── StorageMissing       no such bucket, container or directory
│   ├── StorageUnreachable   no answer, or none but "later"
│   └── StorageFull          no space, or a quota that is used up
├── UnreadableDocument       the store holds what this release cannot read
├── DataDamaged              a file of the data folder is not what was written
├── StoreUnavailable         the store cannot commit (full disk, lost database); nothing was changed
│   └── StoreDamaged         a page of the database is not what was written: nothing is written any more
└── LeaseLost                another master leads: this process must stop

Messages are one line, name the field and the value, and say the way out. Only `master.api` turns them into HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime


class WindlassError(Exception):
    """Base of all errors that a user or another module may see. `code` is stable, the message is for people."""

    code = "internal"

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else self.code


class InvalidArgument(WindlassError):
    """The caller sent something that cannot be right."""

    code = "invalid_argument"


class InvalidConfig(InvalidArgument):
    """A configuration with one or more problems, each a line `<config>.path.to[0].key: what is wrong`."""

    code = "invalid_config"

    def __init__(self, problems: Sequence[str], *, what: str = "configuration") -> None:
        self.problems = tuple(problems)
        self.what = what
        super().__init__(f"invalid {what}: " + "; ".join(self.problems))


class Unauthenticated(WindlassError):
    """No valid token, or a wrong password."""

    code = "unauthenticated"


class PermissionDenied(WindlassError):
    """Known, but not allowed."""

    code = "permission_denied"


class NotFound(WindlassError):
    """There is no such thing."""

    code = "not_found"

    def __init__(self, kind: str, id_: object, hint: str = "") -> None:
        """`hint`: the way out, with the punctuation that leads to it."""
        super().__init__(f"{kind} '{id_}' not found{hint}")
        self.kind = kind
        self.id = id_


class InvalidState(WindlassError):
    """The thing is in a state that does not allow it."""

    code = "failed_precondition"


class Conflict(WindlassError):
    """Somebody else changed it, or has it already."""

    code = "conflict"


class Unsatisfiable(InvalidArgument):
    """No agent or offer of the pool could ever hold the request. The message names the limit and what would fit."""

    code = "unsatisfiable"

    def __init__(self, why: str, *, nearest: Sequence[int] = ()) -> None:
        """`nearest`: the sizes closest to what was requested that would fit."""
        self.why = why
        self.nearest = tuple(sorted(nearest))
        super().__init__(why if not nearest else f"{why}: {_nearest_text(self.nearest)}")


class Unfulfillable(Unsatisfiable):
    """Larger than any agent, and it must run on one: refused even where what may never run is accepted."""


def _nearest_text(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        return f"the nearest size that fits is {sizes[0]}"
    return f"the nearest sizes that fit are {' and '.join(map(str, sizes))}"


class CapacityError(WindlassError):
    """The provider has none right now."""

    code = "no_capacity"


class QuotaError(WindlassError):
    """The provider's account limit is reached."""

    code = "quota"


class ProviderAuthError(WindlassError):
    """The provider refuses our credentials or permissions."""

    code = "provider_auth"


class ProviderError(WindlassError):
    """Anything else that a provider answered."""

    code = "provider"


class BatchSystemError(WindlassError):
    """Slurm or PBS said no."""

    code = "batch_system"


class StorageError(WindlassError):
    """A checkpoint storage cannot do what it should."""

    code = "storage"


class StorageDenied(StorageError):
    """Missing, wrong or expired credentials, or no right to do it."""

    code = "storage_denied"


class StorageMissing(StorageError):
    """There is no such bucket, container or directory."""

    code = "storage_missing"


class StorageUnreachable(StorageError):
    """No answer, or none but "later"."""

    code = "storage_unreachable"


class StorageFull(StorageError):
    """No space, or a quota that is used up."""

    code = "storage_full"


class StoreUnavailable(WindlassError):
    """The store cannot commit (full disk, lost database); nothing was changed."""

    code = "store_unavailable"


class StoreDamaged(StoreUnavailable):
    """A page of the database is not what was written. Nothing is written any more; what can be read still is."""


class DataDamaged(WindlassError):
    """A file of the data folder is missing, or not what was written. A backup has it."""

    code = "data_damaged"


class UnreadableDocument(WindlassError):
    """Nothing was changed. The release that wrote it can read it."""

    code = "unreadable_document"

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(
            f"{what} cannot be read: {problem} (was it written by a newer Windlass? If so, start that release again)"
        )


class LeaseHeld(WindlassError):
    """Another master leads: this one must not begin."""

    code = "lease_held"

    def __init__(self, holder: str, expires_at: datetime, wait_s: float) -> None:
        """`expires_at`: by the database's clock."""
        super().__init__(
            f"another master leads this cluster: {holder}, until {expires_at:%Y-%m-%d %H:%M:%S} UTC, and it lives: it "
            "has renewed its lease. Stop it first (a master that has stopped gives its lease back), or give this one "
            "another db.url"
        )
        self.holder = holder
        self.expires_at = expires_at
        self.wait_s = wait_s


class LeaseLost(WindlassError):
    """Another master leads: this process must stop."""

    code = "lease_lost"
