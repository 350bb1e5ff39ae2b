"""Prints the calls of webhooks that are signed: WINDLASS_KEY=$(det webhook signing-key) python receiver.py"""

import hashlib
import hmac
import os
from http.server import BaseHTTPRequestHandler, HTTPServer


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        signed = f"{self.headers['X-Windlass-Signature-Timestamp']},".encode() + body
        expected = hmac.new(os.environ["WINDLASS_KEY"].encode(), signed, hashlib.sha256).hexdigest()
        good = hmac.compare_digest(expected, self.headers["X-Windlass-Signature"] or "")
        print("signed" if good else "not signed", body.decode(), flush=True)
        self.send_response(200 if good else 401)
        self.end_headers()


HTTPServer(("", int(os.environ.get("PORT", "8090"))), Receiver).serve_forever()
