"""A directory of a WebDAV server: `https://HOST/PATH`. Uses the standard library.

RFC 4918: PROPFIND lists the directory, MOVE gives an uploaded file its name, MKCOL creates the directory. A file is
uploaded under a temporary name, read back, and renamed. Certificates are verified; redirects are not followed, so that
credentials reach only the named host.

The connection is kept, and opened again where the server has closed it.
"""

import contextlib
import http.client
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, BinaryIO, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit
from xml.etree import ElementTree

from tally.offsite.destination import (
    BLOCK_BYTES,
    CONNECT_S,
    LISTING_S,
    MAX_FILES,
    READ_S,
    UNFINISHED,
    Credentials,
    DestinationError,
    StoredFile,
    allowed_s,
    exactly,
    plain,
    require_encrypted_connection,
    require_same,
    size_of,
    time_limit,
    usable,
)

_LISTED = (
    b'<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><getcontentlength/><resourcetype/></prop>'
    b"</propfind>"
)
# A listing is read in blocks and may be long: Apache writes some 310 bytes for each file.
_LISTING_BLOCK_BYTES, _MAX_ENTRY_BYTES = 65_536, 1_048_576
_FIXES = {
    401: "check user and password of the credentials",
    403: "check the permissions of the user",
    404: "check the path of --backup-to",
    409: "create the directory above it",
    507: "free space there",
}


class WebDav:
    """Files of one directory, which is created if it does not exist."""

    def __init__(self, url: SplitResult, credentials: Credentials) -> None:
        require_encrypted_connection(url.scheme, url.hostname or "", "--backup-to")
        self._url, self._base = url, unquote(url.path).rstrip("/") + "/"
        self._credentials = credentials._replace(user=unquote(url.username or "") or credentials.user)
        self._where = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
        login = f"{self._credentials.user}:{credentials.password}".encode()
        self._headers = {"Authorization": f"Basic {b64encode(login).decode()}"} if self._credentials.user else {}
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def put(self, name: str, file: BinaryIO) -> None:
        """Store a complete copy of an open file."""
        what, temporary, size = f"{name} cannot be uploaded", name + UNFINISHED, size_of(file)
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        if self._status(what, "PUT", temporary, file, headers, (404, 409), allowed_s(size)) in (404, 409):
            # The answer for a directory that does not exist.
            self._status("the directory cannot be created", "MKCOL", "", also=(405,))
            self._status(what, "PUT", temporary, file, headers, seconds=allowed_s(size))
        require_same(name, file, self.get(temporary, size))
        self._status(what, "MOVE", temporary, headers={"Destination": self._where + self._path(name), "Overwrite": "T"})

    def files(self, limit: int | None = MAX_FILES) -> list[StoredFile]:
        """Return the files whose names this program may have given."""
        what = "the directory cannot be listed"
        headers = {"Depth": "1", "Content-Type": "application/xml"}
        with self._response(what, "PROPFIND", "", _LISTED, headers, (404,), LISTING_S) as response:
            return [] if response.status == 404 else usable(self._listed(response), limit)

    def _listed(self, response: http.client.HTTPResponse) -> Iterator[StoredFile]:
        """Yield the entries of a listing as they arrive; those that are no file of the directory have no name."""
        parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(("start", "end"))
        root: ElementTree.Element | None = None
        unread = 0
        try:
            while block := response.read1(_LISTING_BLOCK_BYTES):
                parser.feed(block)
                unread += len(block)
                for event, element in cast(Iterator[tuple[str, ElementTree.Element]], parser.read_events()):
                    root = element if root is None else root
                    if event == "end" and element.tag == "{DAV:}response":
                        yield self._entry(element)
                        # The entries before need no memory.
                        root.clear()
                        unread = 0
                if unread > _MAX_ENTRY_BYTES:
                    raise DestinationError(f"{self._where}: an entry of the listing is too long: is this WebDAV?")
            parser.close()
        except ElementTree.ParseError as failure:
            raise DestinationError(f"{self._where}: the listing is not XML ({failure}): is this WebDAV?") from None

    def _entry(self, entry: ElementTree.Element) -> StoredFile:
        path = unquote(urlsplit(entry.findtext("{DAV:}href", "").strip()).path)
        size = entry.findtext(".//{DAV:}getcontentlength") or ""
        if not path.startswith(self._base) or not re.fullmatch("[0-9]{1,18}", size):
            return StoredFile("", 0)
        return StoredFile(path.removeprefix(self._base), int(size))

    def get(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file of this size in blocks."""
        what = f"{name} cannot be downloaded"
        with self._response(what, "GET", name, seconds=allowed_s(size)) as response:
            yield from exactly(f"{self._where}: {what}", iter(lambda: response.read1(BLOCK_BYTES), b""), size)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        self._status(f"{name} cannot be deleted", "DELETE", name, also=(404,))

    def close(self) -> None:
        """Close the connection, if one is open."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def _path(self, name: str) -> str:
        return quote(self._base + name)

    def _status(
        self,
        what: str,
        method: str,
        name: str,
        body: bytes | BinaryIO | None = None,
        headers: dict[str, str] | None = None,
        also: tuple[int, ...] = (),
        seconds: float = allowed_s(0),
    ) -> int:
        with self._response(what, method, name, body, headers, also, seconds) as response:
            return response.status

    @contextlib.contextmanager
    def _response(
        self,
        what: str,
        method: str,
        name: str,
        body: bytes | BinaryIO | None = None,
        headers: dict[str, str] | None = None,
        also: tuple[int, ...] = (),
        seconds: float = allowed_s(0),
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; yield the response. `also`: statuses that are no error besides 2xx. `seconds`: for all of
        it."""
        with self._errors(what), time_limit(f"{self._where}: {what}", seconds, self._shut_down):
            response = self._send(method, self._path(name), body, self._headers | (headers or {}))
            try:
                if response.status not in also and not 200 <= response.status < 300:
                    fix = _FIXES.get(response.status, "check --backup-to")
                    reason = f"{response.status} {response.reason[:100]}"
                    raise DestinationError(f"{self._where}: {what}: {reason}: {fix}.")
                yield response
            except BaseException:
                response.close()
                self.close()
                raise
            # A connection whose response was not read to its end cannot be used again.
            response.read(BLOCK_BYTES)
            if not response.isclosed():
                response.close()
                self.close()

    def _shut_down(self) -> None:
        """End the connection while another thread reads from it."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(
        self, method: str, path: str, body: bytes | BinaryIO | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        is_kept = self._connection is not None
        try:
            return self._send_once(method, path, body, headers)
        except (ConnectionError, http.client.HTTPException):
            self.close()
            if not is_kept:
                raise
            # The server may close a connection that is idle; every request can be repeated.
            return self._send_once(method, path, body, headers)

    def _send_once(
        self, method: str, path: str, body: bytes | BinaryIO | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        connection = self._connection or self._connect()
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def _connect(self) -> http.client.HTTPConnection:
        options: dict[str, Any] = {"port": self._url.port, "timeout": CONNECT_S, "blocksize": BLOCK_BYTES}
        kind: type[http.client.HTTPConnection] = http.client.HTTPConnection
        if self._url.scheme == "https":
            kind, options["context"] = http.client.HTTPSConnection, ssl.create_default_context()
        connection = kind(self._url.hostname or "", **options)
        # Before it is open, so that it is closed where its certificate is refused.
        self._connection = connection
        connection.connect()
        connection.sock.settimeout(READ_S)
        # The connection has none any more where the response ends with it.
        self._socket = connection.sock
        return connection

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except DestinationError:
            self.close()
            raise
        except (OSError, http.client.HTTPException) as failure:
            self.close()
            raise DestinationError(f"{self._where}: {what}: {plain(failure, self._credentials)}.") from None
