"""
The organization's look-up service, as the demo needs one: ``python -m deploy.demo.stub --report FILE``.

Prints ``listening PORT`` once it can be reached, answers with the record of the client whose number
stands anywhere in a request, and writes each request to the report as it came (JSON lines).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

CLIENTS = {
    "+12125550142": {
        "name": "Alice Martin",
        "customer_since": "2021-04-12",
        "open_order": {"number": "R-1042", "item": "bicycle repair", "state": "ready for pick-up"},
    }
}
MAX_BODY = 64 * 1024


class LookupHandler(BaseHTTPRequestHandler):
    """Answers GET and POST on any path."""

    server: LookupServer

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._answer(self.rfile.read(min(length, MAX_BODY)))

    def log_message(self, *_: object) -> None:
        """Keep the terminal quiet: the report has everything."""

    def _answer(self, body: bytes) -> None:
        said = unquote(self.path) + body.decode("utf-8", "replace")
        client = next((record for number, record in CLIENTS.items() if number in said), None)
        status = 200 if client else 404
        self.server.record(self, body, status)
        content = json.dumps(client or {"error": "no client has this number"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class LookupServer(ThreadingHTTPServer):
    """One look-up service on loopback; the system chooses its port."""

    def __init__(self, report: Path) -> None:
        super().__init__(("127.0.0.1", 0), LookupHandler)
        self._report = report

    def record(self, request: LookupHandler, body: bytes, status: int) -> None:
        address = urlsplit(request.path)
        entry = {
            "at": time.time(),
            "method": request.command,
            "path": address.path,
            "query": {name: values[-1] for name, values in parse_qs(address.query).items()},
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": body.decode("utf-8", "replace"),
            "status": status,
        }
        with self._report.open("a") as out:
            out.write(json.dumps(entry) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.demo.stub", description=__doc__)
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    with LookupServer(options.report) as server:
        print(f"listening {server.server_address[1]}", flush=True)
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
