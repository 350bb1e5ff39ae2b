"""A small Google Cloud Storage: the XML API that obstore speaks, and of the JSON API what Google's client needs.

Only for tests: one process, objects in memory, nobody has to log in.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 700
"""Objects of a list: fewer than clients ask for, so that they must ask again."""


class Stored(NamedTuple):
    data: bytes
    modified: datetime
    tag: str


class Bucket:
    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.lock = threading.Lock()

    def put(self, key: str, data: bytes) -> Stored:
        tag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        stored = self.objects[key] = Stored(data, datetime.now(UTC), tag)
        return stored

    def joined(self, parts: Sequence[bytes]) -> bytes:
        return b"".join(parts)


class FakeGcs:
    def __init__(self, url: str) -> None:
        self.url = url
        self.buckets: dict[str, Bucket] = {}

    def create(self, name: str) -> None:
        self.buckets[name] = Bucket()

    def keys(self, name: str) -> list[str]:
        return sorted(self.buckets[name].objects)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gcs: FakeGcs

    def do_GET(self) -> None:
        path, query = self._target()
        if path.startswith("/storage/v1/b/") and path.endswith("/o"):
            self._list_json(path.split("/")[4], query)
        elif found := re.match(r"/download/storage/v1/b/([^/]+)/o/(.+)$", path):
            self._send_object(found[1], unquote(found[2]))
        elif "/" not in path.strip("/"):
            self._list_xml(unquote(path.strip("/")), query)
        else:
            self._send_object(*self._object(path))

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        path, query = self._target()
        data = self._body()
        if path.startswith("/upload/"):
            self._finish_upload(query["upload_id"], data)
            return
        name, key = self._object(path)
        bucket = self._bucket(name)
        if bucket is None:
            return
        if "partNumber" in query:
            with bucket.lock:
                bucket.parts[query["uploadId"]][int(query["partNumber"])] = data
            self._answer(200, headers={"ETag": f'"{query["partNumber"]}"'})
        else:
            stored = bucket.put(key, data)
            self._answer(200, headers={"ETag": f'"{stored.tag}"'})

    def do_POST(self) -> None:
        path, query = self._target()
        data = self._body()
        if found := re.match(r"/upload/storage/v1/b/([^/]+)/o$", path):
            self._upload_json(found[1], query, data)
            return
        name, key = self._object(path)
        bucket = self._bucket(name)
        if bucket is None:
            return
        if "uploads" in query:
            upload = f"upload-{len(bucket.parts)}"
            bucket.parts[upload] = {}
            self._xml(
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
        else:
            parts = bucket.parts.pop(query["uploadId"])
            stored = bucket.put(key, bucket.joined([parts[number] for number in sorted(parts)]))
            self._xml(
                f'<CompleteMultipartUploadResult><ETag>"{stored.tag}"</ETag></CompleteMultipartUploadResult>'
            )

    def do_DELETE(self) -> None:
        path, query = self._target()
        if found := re.match(r"/storage/v1/b/([^/]+)/o/(.+)$", path):
            name, key = found[1], unquote(found[2])
        else:
            name, key = self._object(path)
        bucket = self._bucket(name)
        if bucket is None:
            return
        if "uploadId" in query:
            bucket.parts.pop(query["uploadId"], None)
            self._answer(204)
        elif bucket.objects.pop(key, None) is None:
            self._error(404, "NoSuchKey")
        else:
            self._answer(204)

    # Answers

    def _send_object(self, name: str, key: str) -> None:
        bucket = self._bucket(name)
        if bucket is None:
            return
        stored = bucket.objects.get(key)
        if stored is None:
            self._error(404, "NoSuchKey")
            return
        wanted = self.headers.get("If-Match")
        if wanted and wanted.strip('"') != stored.tag:
            self._error(412, "PreconditionFailed")
            return
        headers = {
            "ETag": f'"{stored.tag}"',
            "Last-Modified": stored.modified.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        }
        data = stored.data
        ranged = re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range") or "")
        if ranged is None:
            self._answer(200, data, headers)
            return
        start, end = int(ranged[1]), int(ranged[2] or len(data) - 1)
        if start >= len(data):
            self._error(416, "InvalidRange")
            return
        end = min(end, len(data) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        self._answer(206, self._range(data, start, end + 1), headers)

    def _range(self, data: bytes, start: int, end: int) -> bytes | memoryview:
        return memoryview(data)[start:end]

    def _list_xml(self, name: str, query: dict[str, str]) -> None:
        bucket = self._bucket(name)
        if bucket is None:
            return
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token", "")
        keys = sorted(key for key in list(bucket.objects) if key.startswith(prefix) and key > after)
        page, rest = keys[:PAGE], keys[PAGE:]
        prefixes: set[str] = set()
        contents = []
        for key in page:
            below, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if found:
                prefixes.add(f"{prefix}{below}{delimiter}")
                continue
            stored = bucket.objects[key]
            contents.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(stored.data)}</Size>"
                f"<LastModified>{stored.modified.isoformat().replace('+00:00', 'Z')}</LastModified>"
                f'<ETag>"{stored.tag}"</ETag></Contents>'
            )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(found)}</Prefix></CommonPrefixes>"
            for found in sorted(prefixes)
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if rest else ""
        self._xml(f"<ListBucketResult>{token}{''.join(contents)}{common}</ListBucketResult>")

    def _list_json(self, name: str, query: dict[str, str]) -> None:
        bucket = self._bucket(name)
        if bucket is not None:
            prefix = query.get("prefix", "")
            items = [
                self._json_of(name, key, stored)
                for key, stored in sorted(bucket.objects.items())
                if key.startswith(prefix)
            ]
            self._answer(200, json.dumps({"items": items}).encode())

    def _upload_json(self, name: str, query: dict[str, str], data: bytes) -> None:
        bucket = self._bucket(name)
        if bucket is None:
            return
        if query["uploadType"] == "resumable":
            upload = f"{name}/{json.loads(data or b'{}').get('name') or query['name']}"
            location = f"{self.gcs.url}/upload/session?upload_id={upload}"
            self._answer(200, headers={"Location": location})
            return
        boundary = re.search(r'boundary="?([^";]+)', self.headers["Content-Type"])
        assert boundary is not None
        _, described, content, _ = data.split(f"--{boundary[1]}".encode(), 3)
        key = str(json.loads(described.split(b"\r\n\r\n", 1)[1])["name"])
        stored = bucket.put(key, content.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n"))
        self._answer(200, json.dumps(self._json_of(name, key, stored)).encode())

    def _finish_upload(self, upload: str, data: bytes) -> None:
        name, _, key = upload.partition("/")
        stored = self.gcs.buckets[name].put(key, data)
        self._answer(200, json.dumps(self._json_of(name, key, stored)).encode())

    def _json_of(self, name: str, key: str, stored: Stored) -> dict[str, str]:
        media = f"{self.gcs.url}/download/storage/v1/b/{name}/o/{key}?alt=media"
        return {"name": key, "bucket": name, "size": str(len(stored.data)), "mediaLink": media}

    # The wire

    def _target(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        return parts.path, {name: values[-1] for name, values in query.items()}

    def _object(self, path: str) -> tuple[str, str]:
        name, _, key = path.lstrip("/").partition("/")
        return unquote(name), unquote(key)

    def _bucket(self, name: str) -> Bucket | None:
        if name not in self.gcs.buckets:
            self._error(404, "NoSuchBucket")
        return self.gcs.buckets.get(name)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _xml(self, text: str) -> None:
        self._answer(200, text.encode(), {"Content-Type": "application/xml"})

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def _answer(
        self,
        status: int,
        data: bytes | memoryview = b"",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def gcs_server(kind: type[Handler] = Handler) -> Iterator[FakeGcs]:
    class BoundHandler(kind):  # type: ignore[valid-type]
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), BoundHandler)
    server.daemon_threads = True
    BoundHandler.gcs = FakeGcs(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield BoundHandler.gcs
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
