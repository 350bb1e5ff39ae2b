"""What Terraform says with `-json`, in a line for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from windlass.base.formats.json_types import JsonMapping

_NOISE = re.compile(
    r"(?:https response error )?StatusCode: \d+, (?:RequestID|HostID): [\w+/=-]+,? ?(?:HostID: [\w+/=-]*,? ?)?"
)
_LOCK = re.compile(
    r"Lock Info:\s+ID:\s+(\S+)(?:.|\n)*?Who:\s+(\S+)(?:.|\n)*?Created:\s+(.+)", re.MULTILINE
)
"""Terraform's own words tell of preconditions of S3."""
_DOING = {"create": "Making", "update": "Changing", "delete": "Removing", "replace": "Replacing"}
_HINTS = (
    (
        r"Failed to query available provider packages|Failed to install provider",
        "Terraform fetches its plug-ins from registry.terraform.io: let this machine reach it, or name a mirror in "
        "TF_CLI_CONFIG_FILE",
    ),
    (
        r"No valid credential sources|could not find default credentials|InvalidClientTokenId|ExpiredToken"
        r"|RequestExpired|invalid_grant",
        "log in to the cloud (aws configure sso or aws login; gcloud auth application-default login), then try again",
    ),
    (
        r"SERVICE_DISABLED|has not been used in project",
        "gcloud services enable it (docs: deploy), wait a minute, then run up again",
    ),
    (
        r"scheduled for deletion",
        "aws secretsmanager restore-secret --secret-id, or wait until it is gone",
    ),
    (
        r"UnauthorizedOperation|AccessDenied|Error 403|PERMISSION_DENIED",
        "whoever runs this must be allowed to make it",
    ),
    (
        r"holds the lock of the state",
        "wait until it ends; if it was killed: terraform -chdir={folder} force-unlock {lock}",
    ),
    (
        r"Failed to persist state|errored\.tfstate",
        "what was made is noted in errored.tfstate: terraform -chdir={folder} state push errored.tfstate, then try "
        "again",
    ),
    (r"Saved plan is stale", "somebody else changed the cluster meanwhile: run up again"),
    (
        r"AlreadyExists|AlreadyOwnedByYou|InvalidGroup\.Duplicate|InvalidKeyPair\.Duplicate|alreadyExists|Error 409"
        r"|DBInstanceAlreadyExists|ResourceExistsException",
        "the name is taken, by an interrupted run or by somebody else: remove that thing, or choose another "
        "--cluster-id, or take it over with terraform -chdir={folder} import ADDRESS ID",
    ),
    (
        r"QuotaExceeded|LimitExceeded|[Qq]uota",
        "ask the cloud for a larger quota, or remove something",
    ),
)


@dataclass(slots=True)
class TerraformProgress:
    """Counts as events come in."""

    total: int = 0
    done: int = 0
    changes: list[tuple[str, str]] = field(default_factory=list)
    """What is planned: action and address."""
    tainted: list[str] = field(default_factory=list)
    """Those of them that are replaced only because making them was interrupted."""
    errors: list[str] = field(default_factory=list)

    def lines(self, event: JsonMapping) -> Iterator[str]:
        """What to say of one event."""
        hook = event.get("hook") or {}
        address = str((hook.get("resource") or {}).get("addr", ""))
        match event.get("type"):
            case "planned_change":
                change = event["change"]
                address = str(change["resource"]["addr"])
                self.changes.append((str(change["action"]), address))
                if change.get("reason") == "tainted":
                    self.tainted.append(address)
            case "change_summary" if event["changes"].get("operation") == "plan":
                self.total = sum(event["changes"].get(k, 0) for k in ("add", "change", "remove"))
            case "apply_start":
                yield f"{_doing(hook)} {address}{self._counted()}"
            case "apply_progress":
                yield f"{_doing(hook)} {address}, for {hook.get('elapsed_seconds', 0)} s"
            case "apply_complete":
                self.done += 1
            case "diagnostic" if event["diagnostic"].get("severity") == "error":
                self.errors.append(sentence(event["diagnostic"]))

    def _counted(self) -> str:
        return f" ({self.done + 1} of {self.total})" if self.total else ""


def _doing(hook: JsonMapping) -> str:
    return _DOING.get(str(hook.get("action")), "Reading")


def sentence(diagnostic: JsonMapping) -> str:
    """An error of Terraform, with where it is from."""
    parts = [str(diagnostic.get(key) or "") for key in ("address", "summary", "detail")]
    if locked := _LOCK.search(str(diagnostic.get("detail") or "")):
        id_, who, since = locked.groups()
        return f"{who} holds the lock of the state since {since[:16]} UTC (lock {id_})"
    text = ": ".join(_NOISE.sub("", " ".join(part.split())).rstrip(".:") for part in parts if part)
    return text if len(text) <= 600 else text[:600] + "..."


def failure(errors: Sequence[str], folder: str) -> str:
    """All errors, the way out of the first one that has one, in one line."""
    text = "; ".join(dict.fromkeys(errors)) or "Terraform ended without saying why"
    hints = (hint for pattern, hint in _HINTS if re.search(pattern, text))
    hint = next(hints, "")
    lock = re.search(r"\(lock (\S+)\)", text)
    return f"{text}: {hint.format(folder=folder, lock=lock[1] if lock else 'ID')}" if hint else text
