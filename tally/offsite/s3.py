"""A bucket of S3-compatible storage: `s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION`. Needs obstore.

A large file is uploaded in parts, which become an object when all of them have arrived. The object is read back and
deleted if it differs. The parts of an interrupted upload are invisible; a rule of the bucket deletes them
(docs/backup.md).

Credentials are the access key, or what obstore finds by itself: the AWS_... variables, or the role of the machine.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, BinaryIO
from urllib.parse import SplitResult, parse_qsl, urlsplit

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from tally.offsite.destination import (
    CONNECT_S,
    MAX_FILES,
    READ_S,
    Credentials,
    DestinationError,
    StoredFile,
    allowed_s,
    exactly,
    plain,
    require_encrypted_connection,
    require_same,
    size_of,
    usable,
)

# The least is 5 MB, and an upload has at most 10,000 parts. Two are sent at a time.
_PART_BYTES, _MAX_PARTS, _CONCURRENCY = 8 * 1_048_576, 9_000, 2
_CHECKED_BYTES = 65_536
_OPTIONS = ("endpoint", "region")


class S3:
    """Objects of a bucket whose names begin with a prefix."""

    def __init__(self, url: SplitResult, credentials: Credentials) -> None:
        options = dict(parse_qsl(url.query))
        if unknown := options.keys() - set(_OPTIONS):
            raise DestinationError(
                f"--backup-to: {', '.join(sorted(unknown))} is not an option of s3://: use {', '.join(_OPTIONS)}."
            )
        endpoint = urlsplit(options.get("endpoint", ""))
        if endpoint.scheme:
            require_encrypted_connection(endpoint.scheme, endpoint.hostname or "", "The endpoint of --backup-to")
        self._credentials = credentials
        self._where = f"s3://{url.netloc}"
        config: dict[str, Any] = dict(options)
        if credentials.user:
            config |= {"access_key_id": credentials.user, "secret_access_key": credentials.password}
        self._store = S3Store(
            url.netloc,
            prefix=url.path.strip("/") or None,
            # `timeout` is that of a whole request, whose duration depends on the size.
            client_options={
                "allow_http": endpoint.scheme == "http",
                "allow_invalid_certificates": False,
                "connect_timeout": timedelta(seconds=CONNECT_S),
                "read_timeout": timedelta(seconds=READ_S),
                "timeout": timedelta(days=1),
            },
            # The caller retries with growing pauses.
            retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=READ_S)},
            **config,
        )

    def put(self, name: str, file: BinaryIO) -> None:
        """Store a complete copy of an open file."""
        size = size_of(file)
        part = max(_PART_BYTES, size // _MAX_PARTS)
        with self._errors(f"{name} cannot be uploaded"):
            obstore.put(self._store, name, file, chunk_size=part, max_concurrency=_CONCURRENCY)
        try:
            require_same(name, file, self.get(name, size))
        except DestinationError:
            with contextlib.suppress(DestinationError):
                self.delete(name)
            raise

    def files(self, limit: int | None = MAX_FILES) -> list[StoredFile]:
        """Return the files whose names this program may have given."""
        with self._errors("the bucket cannot be listed"):
            return usable(self._objects(), limit)

    def _objects(self) -> Iterator[StoredFile]:
        for some in obstore.list(self._store):
            for entry in some:
                yield StoredFile(entry["path"], entry["size"])

    def get(self, name: str, size: int) -> Iterator[bytes]:
        """Yield the bytes of a file of this size in blocks."""
        what, end_s = f"{self._where}: {name} cannot be downloaded", time.monotonic() + allowed_s(size)
        with self._errors(f"{name} cannot be downloaded"):
            # The library waits for a complete block: short ones, so that the time is checked.
            blocks = obstore.get(self._store, name).stream(min_chunk_size=_CHECKED_BYTES)
            for block in exactly(what, map(bytes, blocks), size):
                if time.monotonic() > end_s:
                    raise DestinationError(
                        f"{what}: it took longer than {allowed_s(size):,.0f} s: check the connection."
                    )
                yield block

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with self._errors(f"{name} cannot be deleted"), contextlib.suppress(NotFoundError, FileNotFoundError):
            obstore.delete(self._store, name)

    def close(self) -> None:
        """Do nothing: connections are closed by the library."""

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as failure:
            raise DestinationError(
                f"{self._where}: {what}: {plain(_shortened(failure), self._credentials)}. Check the bucket, the"
                " endpoint, the region and the access key."
            ) from None


def _shortened(failure: Exception) -> Exception:
    """Return an exception with the message of the library and the innermost cause of its long description."""
    words, _, description = str(failure).partition("Debug source:")
    if "InvalidCertificate" in description:
        return DestinationError("the certificate of the server is not valid")
    causes = re.findall(r'(?:error|message): "([^"]{1,200})"', description)
    return DestinationError(": ".join([words.strip(), *causes[-1:]]))
