"""A stand-in for the model hub on this machine: HEAD and GET of files, with its ways to fail."""

from __future__ import annotations

import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from napari_maskinversion.regions.sam.sam_checkpoints import CheckpointSpec


class Hub:
    """Serves ``files[(repository, file)]``. Settings may be changed between requests."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.checksum: str | None = None  # announce this one instead of the right one
        self.announce_checksum = True
        self.cut_after: int | None = None  # bytes of a body after which the connection breaks
        self.cuts_left = 0
        self.ranges = True
        self.status: int | None = None  # answer everything with this
        self.pause = 0.0  # seconds between pieces
        self.requests: list[tuple[str, str, str | None]] = []  # method, path, Range
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                hub._answer(self, body=False)

            def do_GET(self):
                hub._answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def gets(self) -> list[tuple[str, str, str | None]]:
        return [request for request in self.requests if request[0] == "GET"]

    def publish_sam(self, content: bytes, monkeypatch: pytest.MonkeyPatch) -> CheckpointSpec:
        """Serve ``content`` as the only SAM checkpoint that there is, vit_b."""
        from napari_maskinversion.regions.sam import sam_checkpoints

        self.files[("meta/sam", "sam_vit_b_01ec64.pth")] = content
        spec = sam_checkpoints.CheckpointSpec(
            name="vit_b",
            title="SAM",
            url=f"{self.url}/meta/sam/resolve/main/sam_vit_b_01ec64.pth",
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )
        monkeypatch.setattr(sam_checkpoints, "CHECKPOINTS", {spec.name: spec})
        return spec

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler, *, body: bool) -> None:
        wanted = handler.headers.get("Range")
        self.requests.append((handler.command, handler.path, wanted))
        repository, _, rest = handler.path.lstrip("/").partition("/resolve/")
        content = self.files.get((repository, rest.partition("/")[2]))
        if self.status or content is None:
            handler.send_response(self.status or 404)
            if not self.status:
                handler.send_header("X-Error-Code", "EntryNotFound")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        handler.send_response(206 if start else 200)
        handler.send_header("X-Repo-Commit", "0" * 40)
        if self.announce_checksum:
            digest = self.checksum or hashlib.sha256(content).hexdigest()
            handler.send_header("X-Linked-Etag", f'"{digest}"')
            handler.send_header("ETag", f'"{digest}"')
        handler.send_header("X-Linked-Size", str(len(content)))
        handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        if body:
            self._send(handler, content[start:])

    def _send(self, handler: BaseHTTPRequestHandler, content: bytes) -> None:
        cut = self.cut_after if self.cuts_left else None
        if cut is not None:
            self.cuts_left -= 1
            content = content[:cut]
            handler.close_connection = True
        try:
            for start in range(0, len(content), 1 << 16):
                handler.wfile.write(content[start : start + (1 << 16)])
                time.sleep(self.pause)
        except OSError:
            pass  # the client has gone, as it may
