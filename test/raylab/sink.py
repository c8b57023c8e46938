#!/usr/bin/env python3
"""sink.py FILE [PORT]   Takes what Ray POSTs to a collector and appends it to FILE, a line a request: {"t": Unix seconds, "path", "body": [event…]}."""

import gzip
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

lock = threading.Lock()


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        # The body is kept as it came: decoding and encoding it again might change a number or an escape.
        line = b'{"t":%f,"path":%s,"body":%s}\n' % (time.time(), json.dumps(self.path).encode(), body.replace(b"\n", b" "))
        with lock:
            self.server.file.write(line)
            self.server.file.flush()
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8084), Sink)
    with open(sys.argv[1], "ab") as server.file:
        server.serve_forever()


if __name__ == "__main__":
    main()
