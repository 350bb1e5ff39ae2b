"""What operators do: the master's log and settings, the message to everybody, log retention, accounting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from windlass.sdk.wire import Json

if TYPE_CHECKING:
    from windlass.sdk.session import Session

_MESSAGE = "/api/v1/master/cluster_message"
_PERIOD = "RESOURCE_ALLOCATION_AGGREGATION_PERIOD_"


class Operation:
    def __init__(self, session: Session) -> None:
        self._session = session

    def master_config(self) -> Json:
        """The effective one, without secrets."""
        return dict(self._session.get("/api/v1/master/config")["config"])

    def set_log_level(self, level: str) -> None:
        """`level`: TRACE to CRITICAL. Until the master restarts."""
        body = {
            "config": {"log": {"level": f"LOG_LEVEL_{level}"}},
            "fieldMask": {"paths": ["log.level"]},
        }
        self._session.request("PATCH", "/api/v1/master/config", body=body)

    def master_logs(self, *, follow: bool = False, tail: int | None = None) -> Iterator[Json]:
        """{"id", "message", "timestamp", "level"}, oldest first."""
        query = {"follow": follow or None, "offset": None if tail is None else -tail}
        for line in self._session.stream("/api/v1/master/logs", query):
            yield dict(line["logEntry"])

    def message(self) -> Json | None:
        """{"message", "startTime", "endTime", "createdTime"}."""
        found: Json | None = self._session.get(_MESSAGE)["clusterMessage"]
        return found

    def set_message(
        self, text: str, *, start: str, end: str | None = None, duration: str | None = None
    ) -> None:
        """Not both `end` and `duration`."""
        body = {"message": text, "startTime": start, "endTime": end, "duration": duration}
        self._session.request("PUT", _MESSAGE, body=body)

    def clear_message(self) -> None:
        self._session.request("DELETE", _MESSAGE)

    def retain_logs(self, kind: str, id_: int, days: int) -> None:
        """`kind`: experiments or trials. `days`: -1 for ever."""
        self._session.request("PUT", f"/api/v1/{kind}/{id_}/retain_logs", body={"numDays": days})

    def clean_up_logs(self) -> int:
        """How many lines were deleted."""
        return int(self._session.post("/api/v1/cleanup_logs")["removedCount"])

    def allocations(
        self, form: str, after: str, before: str
    ) -> AbstractContextManager[Iterator[bytes]]:
        """CSV. `form`: allocations-csv or raw."""
        times = {"timestampAfter": after, "timestampBefore": before}
        return self._csv(form, times)

    def sums(
        self, first: str, last: str, *, monthly: bool
    ) -> AbstractContextManager[Iterator[bytes]]:
        """CSV. Both days are included."""
        period = _PERIOD + ("MONTHLY" if monthly else "DAILY")
        return self._csv("aggregated", {"startDate": first, "endDate": last, "period": period})

    def _csv(self, form: str, query: dict[str, str]) -> AbstractContextManager[Iterator[bytes]]:
        path = f"/resources/allocation/{form}?{urlencode(query)}"
        return self._session.raw("GET", path, accept="text/csv")
