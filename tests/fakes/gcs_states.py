"""What Terraform's backend and `det deploy gcp` ask of Google Cloud Storage beyond objects: buckets and conditions."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

from tests.fakes.gcs_server import Handler, Stored

BUCKETS: dict[str, Any] = {}
"""As they were asked for, by name."""


class StatesHandler(Handler):
    def do_GET(self) -> None:
        path, query = self._target()
        if found := re.fullmatch(r"/storage/v1/b/([^/]+)", path):
            if self._bucket(found[1]) is not None:
                self._json(BUCKETS.get(found[1], {"name": found[1]}))
        elif found := re.fullmatch(r"/storage/v1/b/([^/]+)/o/(.+)", path):
            name, key = found[1], unquote(found[2])
            if query.get("alt") == "media":
                self._send_object(name, key)
            elif (bucket := self._bucket(name)) and (stored := bucket.objects.get(key)):
                self._json(self._json_of(name, key, stored))
            elif bucket:
                self._error(404, "NoSuchKey")
        else:
            super().do_GET()

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path, query = self._target()
        if path == "/storage/v1/b":
            asked = json.loads(self._body())
            self.gcs.create(asked["name"])
            BUCKETS[asked["name"]] = {**asked, "project": query["project"]}
            self._json(asked)
        elif query.get("uploadType") == "media":
            name = path.split("/")[5]
            data = self._body()
            if bucket := self._bucket(name):
                self._json(self._json_of(name, query["name"], bucket.put(query["name"], data)))
        else:
            super().do_POST()

    def do_DELETE(self) -> None:
        path, query = self._target()
        found = re.fullmatch(r"/storage/v1/b/([^/]+)/o/(.+)", path)
        if found and not self._matches(found[1], unquote(found[2]), query):
            self._error(412, "conditionNotMet")
        else:
            super().do_DELETE()

    def _upload_json(self, name: str, query: dict[str, str], data: bytes) -> None:
        if self._matches(name, query.get("name", ""), query):
            super()._upload_json(name, query, data)
        else:
            self._error(412, "conditionNotMet")

    def _matches(self, name: str, key: str, query: dict[str, str]) -> bool:
        wanted = query.get("ifGenerationMatch")
        bucket = self.gcs.buckets.get(name)
        stored = bucket.objects.get(key) if bucket else None
        return wanted is None or wanted == (_generation(stored) if stored else "0")

    def _json_of(self, name: str, key: str, stored: Stored) -> dict[str, str]:
        return {**super()._json_of(name, key, stored), "generation": _generation(stored)}

    def _json(self, document: Any) -> None:
        self._answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})


def _generation(stored: Stored) -> str:
    return str(int(stored.modified.timestamp() * 1_000_000))
