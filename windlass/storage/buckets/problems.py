"""What a bucket answers, in words that say what to do.

obstore has few kinds of errors. The code of the service's answer says what happened; the text of the error has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate

from windlass.base.errors import (
    StorageDenied,
    StorageError,
    StorageFull,
    StorageMissing,
    StorageUnreachable,
)

_CODE = re.compile(r"<Code>(\w+)</Code>|\"(?:reason|error)\": ?\"(\w+)\"")
_TIME_FRAME = re.compile(r"Expiry \[([^\]]+)\] - Current \[([^\]]+)\]")
_STATUS = re.compile(r"status code: (\d{3})")
_SECRET = re.compile(r"(?i)\b(sig|signature|x-amz-[a-z-]+|token|accountkey)=[^&\s\"]+")
SAID_OF_OTHERS = 200
"""Characters of an answer that is not known here."""


@dataclass(frozen=True, slots=True)
class _Kind:
    error: type[StorageError]
    words: str
    codes: frozenset[str]


def _kind(error: type[StorageError], words: str, *codes: str) -> _Kind:
    return _Kind(error, words, frozenset(codes))


_EXPIRED = _kind(
    StorageDenied,
    "credentials expired: renew them (a new token, a new login or a new key) and try again",
    "ExpiredToken",
    "TokenRefreshRequired",
    "ExpiredTokenException",
    "RequestExpired",
    "invalid_grant",
)
_KINDS = (
    _kind(
        StorageMissing,
        "there is no such {bucket}: create it, or correct its name",
        "NoSuchBucket",
        "ContainerNotFound",
        "ContainerBeingDeleted",
        "AccountNotFound",
    ),
    _EXPIRED,
    _kind(
        StorageDenied,
        "the credentials are wrong: correct them where this process gets them from ({source})",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidToken",
        "AuthenticationFailed",
        "InvalidAuthenticationInfo",
        "InvalidSecurity",
        "NoAuthenticationInformation",
    ),
    _kind(
        StorageDenied,
        "the clock of this machine differs too much from the storage's: correct it",
        "RequestTimeTooSkewed",
    ),
    _kind(
        StorageDenied,
        "access denied: give the credentials in use ({source}) the right to list, read, write and delete there",
        "AccessDenied",
        "AllAccessDisabled",
        "AccountProblem",
        "AuthorizationFailure",
        "AuthorizationPermissionMismatch",
        "AuthorizationSourceIPMismatch",
        "InsufficientAccountPermissions",
        "AccountIsDisabled",
        "forbidden",
    ),
    _kind(
        StorageError,
        "the {bucket} is in another region: set AWS_REGION to it",
        "PermanentRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
    ),
    _kind(
        StorageFull,
        "no space: free some, or raise the quota",
        "QuotaExceeded",
        "XMinioStorageFull",
        "InsufficientStorage",
        "AccountBlobCapacityExceeded",
    ),
    _kind(
        StorageUnreachable,
        "the storage asks to send less at a time; it was tried again for a while: try later",
        "SlowDown",
        "ServerBusy",
        "ServiceUnavailable",
        "TooManyRequests",
    ),
)
_NO_CREDENTIALS = re.compile(
    r"169\.254\.|metadata\.google|metadata token|InstanceMetadata|ImdsManagedIdentity|az account|azure cli",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"error sending request|body error|timed out|connection (closed|reset|refused)|dns error|kind: (Connect|Timeout)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """A bucket, as messages name it."""

    where: str
    """`s3://bucket/prefix`."""
    bucket: str
    """The service's word for it: bucket or container."""
    source: str
    """Where its credentials come from."""


@contextmanager
def told(place: BucketPlace, name: str = "") -> Iterator[None]:
    """Raises what obstore raises in the block as StorageError; `name` is what it is about. OSErrors pass."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError, ValueError) as error:
        raise storage_error(error, place, name) from None


class MissingObject(StorageError):
    """The bucket is there, the object is not."""


def storage_error(error: Exception, place: BucketPlace, name: str) -> StorageError:
    text = str(error)
    about = f"{place.where}/{name}" if name else place.where
    codes = {code for found in _CODE.findall(text) for code in found if code}
    for kind in _KINDS:
        known = codes if kind is _EXPIRED and _is_past_its_time(text) else kind.codes & codes
        if known:
            words = kind.words.format(bucket=place.bucket, source=place.source)
            return kind.error(f"{place.where}: {words} ({', '.join(sorted(known))})")
    return _by_status(error, text, about, place)


def _is_past_its_time(text: str) -> bool:
    """Azure answers AuthenticationFailed to what is wrong and to what has expired; its sentence tells them apart."""
    if "The token is expired" in text:
        return True
    found = _TIME_FRAME.search(text)
    if found is None:
        return False
    expiry, current = (parsedate(time) for time in found.groups())
    return expiry is not None and current is not None and expiry <= current


def _by_status(error: Exception, text: str, about: str, place: BucketPlace) -> StorageError:
    status = found.group(1) if (found := _STATUS.search(text)) else ""
    if _NO_CREDENTIALS.search(text):
        return StorageDenied(
            f"{about}: no credentials: none in the configuration, in the environment or of this machine"
        )
    if "redirect" in text and status in ("", "301", "307"):
        return StorageError(f"{place.where}: the bucket is in another region: set AWS_REGION to it")
    if isinstance(error, FileNotFoundError) or status == "404":
        return MissingObject(f"{about}: there is no such object")
    if status in ("401", "403"):
        return StorageDenied(
            f"{about}: access denied: give the credentials in use ({place.source}) the right to list, read, "
            "write and delete there"
        )
    if status == "507":
        return StorageFull(f"{about}: no space: free some, or raise the quota")
    if status.startswith("5") or status == "429" or _NO_ANSWER.search(text):
        return StorageUnreachable(
            f"{about}: no answer: is its address right, and can this machine reach it? ({_short(text)})"
        )
    return StorageError(f"{about}: {_short(text)}")


def _short(text: str) -> str:
    """Of the error's text what a person can read, and no secret."""
    first = text.split("\n\nDebug source", 1)[0]
    plain = re.sub(r"<[^>]*>|\s+", " ", _SECRET.sub(r"\1=...", first))
    return " ".join(plain.split())[:SAID_OF_OTHERS]
