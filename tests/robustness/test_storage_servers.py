"""Files on real servers for storage: S3 (moto), SFTP (OpenSSH), WebDAV (Apache); and the format of the real `age`.

tests/robustness/test_lost_machine.py has the commands that use them.
"""

import contextlib
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest
import trustme

from tally.offsite import age, webdav
from tally.offsite.destination import (
    BLOCK_BYTES,
    Credentials,
    Destination,
    DestinationError,
    allowed_s,
    open_destination,
)
from tests.support.app import new_database
from tests.support.offsite import KINDS, USER, StorageServer, restart, running
from tests.support.process import Command

NAME = "tally-4f2a9c1b-20261122T030000Z-81c0d2aa-120345.db"


@pytest.fixture
def destination(storage: StorageServer) -> Iterator[Destination]:
    with closing(open_destination(storage.url, None, storage.environment)) as destination:
        yield destination


class Failing(BytesIO):
    """A file that calls a function when half of it has been read."""

    def __init__(self, content: bytes, fail: object) -> None:
        super().__init__(content)
        self.fail = fail

    def read(self, size: int | None = -1) -> bytes:
        if self.tell() > len(self.getvalue()) // 2:
            assert callable(self.fail)
            self.fail()
        return super().read(size)


def whole(destination: Destination, name: str) -> bytes:
    size = next((one.size for one in destination.files() if one.name == name), 0)
    return b"".join(destination.get(name, size))


def test_files(destination: Destination, storage: StorageServer) -> None:
    """Written, replaced, listed, read in blocks, deleted; other files are not listed."""
    assert destination.files() == []
    content = os.urandom(9_000_000)
    for one in (content, b"", b"short", content):
        destination.put(NAME, BytesIO(one))
        assert whole(destination, NAME) == one
    assert max(map(len, destination.get(NAME, len(content)))) <= 2 * BLOCK_BYTES
    destination.put("tally-other", BytesIO(b"second"))
    if storage.files is not None:
        folder = storage.files / "tally" if storage.kind == "webdav" else storage.files
        for name in ("notes.txt", "tally-a b", "tally-..%2fx", f"{NAME}<&>", ".hidden", "tally-ünï"):
            (folder / name).write_bytes(b"mine")
        (folder / "tally-directory").mkdir()
    assert destination.files() == [(NAME, 9_000_000), ("tally-other", 6)]
    for _ in range(2):
        destination.delete(NAME)
    assert destination.files() == [("tally-other", 6)]
    with pytest.raises(DestinationError, match="cannot be downloaded"):
        whole(destination, NAME)


class Changing(BytesIO):
    """A file that has other bytes each time it is read from its beginning, like a copy that was damaged."""

    def seek(self, position: int, whence: int = 0) -> int:
        if position == 0 and whence == 0:
            self.getbuffer()[-1] ^= 1
        return super().seek(position, whence)


def test_an_upload_that_differs_has_no_name(destination: Destination, storage: StorageServer) -> None:
    for size in (100, 12_000_000):
        with pytest.raises(
            DestinationError, match=f"differs from what was sent .{size:,} of {size:,} bytes are stored"
        ):
            destination.put(NAME, Changing(bytes(size)))
        assert NAME not in storage.names()


def fail() -> None:
    raise OSError("the disk failed")


def test_an_interrupted_upload_has_no_name(destination: Destination, storage: StorageServer) -> None:
    """The file cannot be read any further; then, for servers that keep files on disk, the server is killed."""
    content = os.urandom(24_000_000)
    with pytest.raises((DestinationError, OSError), match="the disk failed"):
        destination.put(NAME, Failing(content, fail))
    assert NAME not in storage.names()
    if storage.files is not None:
        with pytest.raises(DestinationError, match="cannot be uploaded"):
            destination.put(NAME, Failing(content, storage.stop))
        assert NAME not in storage.names()
        restart(storage)
    destination.put(NAME, BytesIO(content))
    assert whole(destination, NAME) == content


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_credentials(kind: str) -> None:
    """The error names the cause, and no secret. moto accepts every key."""
    if kind == "s3":
        refused_by(
            "s3://bucket?endpoint=http://127.0.0.1:9", {"TALLY_BACKUP_USER": USER}, "the bucket cannot be listed"
        )
        return
    with running(kind) as server:
        given = dict(server.environment)
        if kind == "webdav":
            given["TALLY_BACKUP_PASSWORD"] = "a secret that is wrong"
            refused_by(server.url, given, "401 Unauthorized: check user and password")
            return
        folder = server.folder
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "other_key"], check=True)
        refused_by(
            server.url,
            given | {"TALLY_BACKUP_KEY_FILE": str(folder / "other_key")},
            "refuses the user .* check password or key_file",
        )
        hosts = folder / "hosts"
        known = given | {"TALLY_BACKUP_KNOWN_HOSTS": str(hosts)}
        refused_by(server.url, known, f"There is no file {hosts} with the public key of 127.0.0.1: .*ssh-keyscan -p ")
        hosts.write_text("")
        refused_by(server.url, known, f"{hosts} lacks the public key of 127.0.0.1")
        theirs = " ".join((folder / "other_key.pub").read_text().split()[:2])
        hosts.write_text(f"[127.0.0.1]:{server.port} {theirs}\n")
        refused_by(server.url, known, "has another key than .* it may be another machine")


def refused_by(url: str, environment: dict[str, str], words: str) -> None:
    with (
        closing(open_destination(url, None, environment)) as opened,
        pytest.raises(DestinationError, match=words) as error,
    ):
        opened.files()
    assert not [value for name, value in environment.items() if "PASSWORD" in name and value in str(error.value)]


def test_credentials_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("# of the storage box\nuser = me\npassword = a=b c\n")
    file.chmod(0o640)
    with pytest.raises(DestinationError, match="can be read by other users: chmod 600"):
        open_destination("https://h/x", file, {})
    file.chmod(0o600)
    used = open_destination("https://h/x", file, {"TALLY_BACKUP_USER": "another"})
    assert used._credentials == Credentials("another", "a=b c")  # type: ignore[attr-defined]
    file.write_text("passwort = secret\n")
    with pytest.raises(DestinationError, match="line 1: write NAME = VALUE") as error:
        open_destination("https://h/x", file, {})
    assert "secret" not in str(error.value)
    for url in ("http://far.example/x", "s3://b?endpoint=http://far.example"):
        with pytest.raises(DestinationError, match="must begin with https://"):
            open_destination(url, None, {})


@pytest.mark.parametrize(
    ("url", "library", "extra"), [("s3://b", "obstore", "s3"), ("sftp://u@h/x", "paramiko", "sftp")]
)
def test_a_missing_library_is_named(url: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (library, "pyrage"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(DestinationError, match=rf"needs {library}, which is not installed: pip install .*\[{extra}\]"):
        open_destination(url, None, {})
    with pytest.raises(
        DestinationError, match=r"Encryption needs pyrage, which is not installed: pip install .*\[age\]"
    ):
        age.check_recipients(("age1...",))


class Nothing(BaseHTTPRequestHandler):
    def do_PROPFIND(self) -> None:
        self.send_response(302)
        self.send_header("Location", "https://elsewhere.example/")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        pass


def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a server whose certificate no installed authority has signed. A redirect is not followed."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"https://localhost:{server.server_port}"
            refused_by(f"{url}/x", {}, "certificate verify failed")
            refused_by(
                f"s3://bucket?endpoint={url}", {"TALLY_BACKUP_USER": USER}, "the certificate of the server is not valid"
            )
            authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
            refused_by(f"{url}/x", {}, "302 Found: check --backup-to")
        finally:
            server.shutdown()
            thread.join()


class Listing(BaseHTTPRequestHandler):
    """Lists as many files as the path says, as Apache does; or one with a long name."""

    protocol_version = "HTTP/1.1"
    files, name_bytes, end = 90_000, 0, b"</D:multistatus>"

    def do_PROPFIND(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(207)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b'<?xml version="1.0" encoding="utf-8"?>\n<D:multistatus xmlns:D="DAV:">')
        with contextlib.suppress(OSError):
            for first in range(0, self.files, 1_000):
                self.wfile.write(b"".join(map(self.entry, range(first, min(first + 1_000, self.files)))))
            self.wfile.write(self.end)
        self.close_connection = True

    def entry(self, n: int) -> bytes:
        name = "x" * self.name_bytes or f"tally-4f2a9c1b-81c0d2aa-{n:09}-{n + 1:09}.ndjson.gz"
        return (
            '<D:response xmlns:lp1="DAV:">\n'
            f"<D:href>/x/{name}</D:href>\n<D:propstat>\n<D:prop>\n<lp1:resourcetype/>\n"
            "<lp1:getcontentlength>1234</lp1:getcontentlength>\n</D:prop>\n<D:status>HTTP/1.1 200 OK</D:status>\n"
            "</D:propstat>\n</D:response>\n"
        ).encode()

    def log_message(self, format: str, *words: object) -> None:
        pass


@contextlib.contextmanager
def listing(**options: object) -> Iterator[str]:
    """Yield the URL of a server that answers with a listing."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Given", (Listing,), options)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/x"
        finally:
            server.shutdown()
            thread.join()


def test_increments_of_a_day_are_listed() -> None:
    """With one each second; by WebDAV these are 28 MB."""
    with listing() as url, closing(open_destination(url, None, {})) as opened:
        found = opened.files()
    assert len(found) == 90_000
    assert found[-1] == ("tally-4f2a9c1b-81c0d2aa-000089999-000090000.ndjson.gz", 1234)


def test_a_listing_is_bounded() -> None:
    for name_bytes in (0, 5):
        with (
            listing(files=2_001, name_bytes=name_bytes) as url,
            closing(open_destination(url, None, {})) as opened,
        ):
            assert len(opened.files(2_001)) == (0 if name_bytes else 2_001)
            with pytest.raises(DestinationError, match="more than 2,000 files"):
                opened.files(2_000)
    for options, words in (
        ({"files": 1, "name_bytes": 3_000_000}, "an entry of the listing is too long"),
        ({"files": 1, "end": b""}, "the listing is not XML"),
        ({"files": 1, "end": b"</D:wrong>"}, "the listing is not XML"),
    ):
        with listing(**options) as url:
            refused_by(url, {}, words)


class Hostile(BaseHTTPRequestHandler):
    """Answers with a status line of control characters, with more or fewer bytes than are listed, or byte by byte."""

    protocol_version = "HTTP/1.1"
    how = ""

    def do_GET(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            if self.how == "slow head":
                for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.02)
            self.send_response(200)
            if self.how == "slow body":
                self.send_header("Content-Length", "1000")
            self.end_headers()
            if self.how == "endless":
                while True:
                    self.wfile.write(bytes(65_536))
            if self.how == "slow body":
                while True:
                    self.wfile.write(b"x")
                    time.sleep(0.02)
            self.wfile.write(bytes(1_001 if self.how == "one more" else 999))

    def do_PROPFIND(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.how == "slow listing":
            self.close_connection = True
            self.send_response(207)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.02)
        self.send_response(500, "\x1b[2J\x1b]0;title\x07\x9b31mstatus")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:
        pass


@contextlib.contextmanager
def hostile(how: str) -> Iterator[str]:
    """Yield the URL of a server that answers in this way."""
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Given", (Hostile,), {"how": how})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/x"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("one more", "more than 1,000 bytes"),
        ("endless", "more than 1,000 bytes"),
        ("fewer", "after 999 of 1,000 bytes"),
    ],
)
def test_a_download_has_the_listed_size(how: str, words: str) -> None:
    got: list[bytes] = []
    with hostile(how) as url, closing(open_destination(url, None, {})) as opened:
        blocks = opened.get(NAME, 1_000)
        with pytest.raises(DestinationError, match=words):
            got.extend(blocks)
    assert sum(map(len, got)) <= 1_000


@pytest.mark.parametrize("how", ["slow head", "slow body", "slow listing"])
def test_a_server_that_trickles_is_given_up(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte arrives long before the time for one read is over, the answer after months."""
    monkeypatch.setattr(webdav, "allowed_s", lambda size: 0.3)
    monkeypatch.setattr(webdav, "LISTING_S", 0.3)
    with hostile(how) as url, closing(open_destination(url, None, {})) as opened:
        read = opened.files if how == "slow listing" else lambda: list(opened.get(NAME, 1_000))
        with pytest.raises(DestinationError, match="it took longer than 0 s"):
            read()


def test_the_time_of_a_download_grows_with_its_size() -> None:
    assert allowed_s(0) == 120
    assert allowed_s(460_800_000) == 120 + 8 * 3_600


@pytest.mark.parametrize("words", [("restore", "--from", "{url}"), ("doctor", "--backup-to", "{url}")])
def test_no_control_character_of_a_server_reaches_a_terminal(
    words: tuple[str, ...], command: Command, tmp_path: Path
) -> None:
    new_database(tmp_path / "analytics.db").close()
    with hostile("") as url:
        done = command(*(word.format(url=url) for word in words), "--db", str(tmp_path / "analytics.db"))
    shown = done.stdout + done.stderr
    assert "status" in shown, "the status line is named"
    assert all(one.isprintable() for one in shown if one != "\n"), repr(shown)


# --- age


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_the_program_age_reads_and_writes_the_same(size: int, identity: tuple[Path, str], tmp_path: Path) -> None:
    file, recipient = identity
    content = os.urandom(size)
    (tmp_path / "plain").write_bytes(content)
    with (tmp_path / "ours.age").open("wb") as target:
        age.encrypt(BytesIO(content), target, [recipient])
    read = subprocess.run(["age", "-d", "-i", file, tmp_path / "ours.age"], check=True, capture_output=True)
    assert read.stdout == content
    subprocess.run(["age", "-r", recipient, "-o", tmp_path / "theirs.age", tmp_path / "plain"], check=True)
    out = BytesIO()
    with (tmp_path / "theirs.age").open("rb") as source:
        age.decrypt(source, out, file, "theirs")
    assert out.getvalue() == content


def test_what_cannot_be_decrypted(identity: tuple[Path, str], tmp_path: Path) -> None:
    file, recipient = identity
    out = BytesIO()
    age.encrypt(BytesIO(bytes(200_000)), out, [recipient])
    whole, other = out.getvalue(), tmp_path / "other.txt"
    subprocess.run(["age-keygen", "-o", other], check=True, capture_output=True)
    (tmp_path / "none.txt").write_text("no key")
    changed = bytearray(whole)
    changed[-40_000] ^= 1
    for content, key, words in (
        (whole, None, "is encrypted: add --identity FILE"),
        (whole, other, "encrypted for other keys"),
        (whole, tmp_path / "none.txt", "has no line AGE-SECRET-KEY-1"),
        (whole, tmp_path / "absent", "cannot be read"),
        (whole[:-1], file, "damaged or incomplete"),
        (whole[:100_000], file, "damaged or incomplete"),
        (bytes(changed), file, "damaged or incomplete"),
        (b"SQLite format 3", file, "damaged or incomplete"),
    ):
        with pytest.raises(DestinationError, match=words):
            age.decrypt(BytesIO(content), BytesIO(), key, "x")
