"""The client of a ClickHouse server over HTTP.

A statement either has an answer, or is refused for certain (`Refused`), or its outcome is unknown (`NoAnswer`), such as
after a lost connection: an insert is then sent again with the same bytes and the same token, which stores it once. The
settings that the exactness and durability of answers depend on are sent with each request, whatever the server's are.
Texts travel as parameters of statements in the request's form, never inside a statement.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any

import aiohttp
import orjson

from tally.clickhouse import schema
from tally.engine.values import SERVER, Claim
from tally.errors import OVERLOADED, QUERY_TIMEOUT, STORAGE_UNAVAILABLE, ApiError, log
from tally.storage.fair_queue import FairQueue, QueueFull

# How often a running query looks whether its client has disconnected.
_LOOK_S = 0.2
_READ_SETTINGS = {
    # A document, of which a part is no JSON: an answer that is cut off, or empty, is none.
    "default_format": "JSONCompact",
    "output_format_write_statistics": "0",
    "output_format_json_quote_64bit_integers": "0",
    # A report that takes longer is cancelled, and so is one whose connection is closed.
    "cancel_http_readonly_queries_on_client_close": "1",
    "max_memory_usage": "8000000000",
    # A failure is known before the first byte of an answer.
    "wait_end_of_query": "1",
    "join_use_nulls": "0",
    "max_query_size": "4000000",
    "max_ast_elements": "200000",
    "max_expanded_ast_elements": "1000000",
}
_WRITE_SETTINGS = {
    # Answered when stored, not when queued; a repeated token stores nothing.
    "async_insert": "0",
    "insert_deduplicate": "1",
}
# Of several servers, so many have stored an insert before it is answered.
_QUORUM = 2
# UNKNOWN_STATUS_OF_INSERT: fewer servers than the quorum had stored it in time. 0: not an answer of ClickHouse.
_UNKNOWN = (0, 319)
# UNFINISHED: of a deletion that waits for all servers, of which some are away.
_UNFINISHED = 341
# Of a person's question. Clients choose values, and with them how many an answer has.
_BOUNDED = {"max_result_bytes": "64000000", "result_overflow_mode": "throw"}
# What changes the rows of a table takes the longer the more there are. ClickHouse goes on with it without its client,
# which would begin it once more.
_CHANGE_S = 3_600.0
# A server that is switched off answers nothing.
_CONNECT_S = 2.0
# Codes of ClickHouse: the time, the memory, or the size of the answer of a query is used up.
_KINDS = {159: QUERY_TIMEOUT, 241: OVERLOADED, 396: QUERY_TIMEOUT}
# Queries that run at once, and that may wait for each account or share link.
_AT_ONCE, _MAX_WAITING = 8, 50


class Refused(Exception):
    """ClickHouse has refused a statement: nothing of it was done. `code` is the number of its error."""

    def __init__(self, code: int, message: str) -> None:
        # Messages quote rows, which have values of visitors: the name of the error alone.
        names = re.findall(r"\(([A-Z][A-Z_]{3,})\)", message)
        super().__init__(f"ClickHouse refused a statement with code {code}{f' ({names[-1]})' if names else ''}")
        self.code = code


class NoAnswer(Exception):
    """Whether ClickHouse has executed a statement is unknown."""


class Client:
    """A client of one server and database. Used by the event loop alone; `close` ends its connections."""

    def __init__(
        self, url: str, database: str, query_s: float = 30.0, quorum: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._url, self._database, self._query_s = url.rstrip("/") + "/", database, query_s
        # Without its password.
        self.name = url.rpartition("@")[2].removeprefix("http://").removeprefix("https://").rstrip("/")
        self._inserts, self.is_replicated = _WRITE_SETTINGS | dict(quorum), bool(quorum)
        self._queue = FairQueue(range(_AT_ONCE), _MAX_WAITING)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def execute(self, statement: str, database: str = "") -> None:
        """Execute a statement without an answer, such as one that inserts what it reads. Raises Refused, NoAnswer.

        A deletion is done once it is recorded and done on the servers that are there: others do it when they are back.
        database: another one than the client's.
        """
        try:
            query, seconds = {"database": database or self._database, "query": statement}, self._query_s
            if statement.startswith("insert"):
                query |= self._inserts | {"max_execution_time": str(_CHANGE_S)}
            if statement.startswith(("insert", "alter")):
                seconds = _CHANGE_S
            await self._send(query, b"", seconds)
        except Refused as failure:
            if failure.code != _UNFINISHED:
                raise

    async def sync(self, *tables: str) -> None:
        """Wait until the server has what the others have of some tables. Raises Refused, NoAnswer."""
        for table in tables if self.is_replicated else ():
            await self.execute(schema.sync(table))

    async def insert(self, table: str, rows: Iterable[Mapping[str, Any]], token: str) -> None:
        """Store rows, once for a token however often it is called with the same ones. Raises Refused, NoAnswer."""
        await self.insert_lines(table, b"\n".join(map(orjson.dumps, rows)), token)

    async def insert_lines(self, table: str, lines: bytes, token: str) -> None:
        """The same for rows as lines of JSON."""
        if lines:
            query = {"database": self._database, "query": f"insert into {table} format JSONEachRow"}
            # As a file: aiohttp warns of large bodies in one piece.
            query |= self._inserts | {"insert_deduplication_token": token}
            await self._send(query, BytesIO(lines), self._query_s)

    async def rows(
        self,
        statement: str,
        parameters: Mapping[str, str],
        is_gone: Callable[[], bool] = lambda: False,
        claim: Claim | None = SERVER,
    ) -> list[list[Any]]:
        """Return the rows of a query. Raises ApiError 503 where there is no answer in time, and once `is_gone`.

        claim: whose turn it takes among the queries that run at once; None waits for none of them.
        """
        if claim is None:
            return await self._rows(statement, parameters, is_gone, {})
        try:
            async with asyncio.timeout(self._query_s):
                slot = await self._queue.acquire(claim)
        except (TimeoutError, QueueFull):
            raise ApiError(OVERLOADED, "Too many queries are waiting: retry later.", retry_after_s=10) from None
        try:
            return await self._rows(statement, parameters, is_gone, {} if claim == SERVER else _BOUNDED)
        finally:
            self._queue.release(slot)

    async def _rows(
        self, statement: str, parameters: Mapping[str, str], is_gone: Callable[[], bool], more: dict[str, str]
    ) -> list[list[Any]]:
        form = aiohttp.FormData(default_to_multipart=True)
        form.add_field("query", statement)
        for name, value in parameters.items():
            form.add_field(f"param_{name}", value)
        settings = _READ_SETTINGS | {"database": self._database, "max_execution_time": str(self._query_s)} | more
        running = asyncio.ensure_future(self._send(settings, form, self._query_s))
        try:
            while not (await asyncio.wait({running}, timeout=_LOOK_S))[0]:
                if is_gone():
                    raise ApiError(STORAGE_UNAVAILABLE)
            return _rows_in(await running)
        except (Refused, NoAnswer) as failure:
            log.error("a question has no answer: %s: %s", self.name, failure)
            code = failure.code if isinstance(failure, Refused) else 0
            raise ApiError(_KINDS.get(code, STORAGE_UNAVAILABLE), str(failure), retry_after_s=10) from None
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, Refused, NoAnswer):
                await running

    async def _send(self, query: Mapping[str, str], body: bytes | BytesIO | aiohttp.FormData, seconds: float) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        timeout = aiohttp.ClientTimeout(total=seconds + 5, sock_connect=_CONNECT_S)
        try:
            async with self._session.post(self._url, params=query, data=body, timeout=timeout) as answer:
                found = await answer.read()
                code = int(answer.headers.get("X-ClickHouse-Exception-Code") or 0)
                if answer.status == 200 and not code:
                    return found
        # A proxy may answer in place of ClickHouse, with a code that is no number.
        except (aiohttp.ClientError, TimeoutError, ValueError) as failure:
            raise NoAnswer(type(failure).__name__) from None
        if code in _UNKNOWN:
            raise NoAnswer(f"code {code}, HTTP {answer.status}")
        raise Refused(code, found.decode(errors="replace"))


def quorum(servers: int, seconds: float) -> dict[str, str]:
    """Return the settings with which several servers store an insert before it is answered, within so many seconds."""
    if servers < _QUORUM:
        return {}
    return {
        "insert_quorum": str(_QUORUM),
        # Inserts of other processes do not wait for this one.
        "insert_quorum_parallel": "1",
        "insert_quorum_timeout": str(int(seconds * 800)),
    }


def _rows_in(body: bytes) -> list[list[Any]]:
    """Return the rows of an answer. Raises NoAnswer where it is not a whole one of ClickHouse."""
    try:
        answer = orjson.loads(body)
        rows: list[list[Any]] = answer["data"]
        if answer["rows"] == len(rows):
            return rows
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    raise NoAnswer("the answer is incomplete")


class Parameters:
    """The values of a statement by name. Each method adds some and returns what stands for them in the statement."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def text(self, value: str) -> str:
        """Return the place of a text."""
        return self._place("String", _escaped(value))

    def texts(self, values: Iterable[str]) -> str:
        """Return the place of an array of texts."""
        return self._place("Array(String)", f"[{','.join(map(_quoted, values))}]")

    def steps(self, values: Iterable[Sequence[tuple[str, str]]]) -> str:
        """Return the place of an array of arrays of pairs of texts."""
        rows = (",".join(f"({_quoted(first)},{_quoted(second)})" for first, second in row) for row in values)
        return self._place("Array(Array(Tuple(String, String)))", f"[{','.join(f'[{row}]' for row in rows)}]")

    def _place(self, kind: str, value: str) -> str:
        name = f"p{len(self.values)}"
        self.values[name] = value
        return f"{{{name}:{kind}}}"


_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES)


def _quoted(text: str) -> str:
    return f"'{_escaped(text)}'"
