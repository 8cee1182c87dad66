"""How inserts and deletions are sent to several servers, and what their outcomes mean."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tally.clickhouse.client import Client, NoAnswer, Refused
from tally.clickhouse.schema import delete_of
from tally.clickhouse.settle import settle
from tally.cluster.servers import Servers
from tally.errors import ApiError


async def insert(client: Client) -> None:
    await client.insert("shipped", [{"series": "s", "number": 1}], "token")


async def copy(client: Client) -> None:
    await client.execute("insert into settled select * from event")


async def settle_day(client: Client) -> None:
    await settle(client, 1, 20_000, 10)


async def read(client: Client) -> None:
    await client.rows("select 1", {}, claim=None)


async def delete(client: Client) -> None:
    await client.execute(delete_of("event", 1, None))


def sent(
    servers: int,
    status: int = 200,
    code: str = "",
    work: Callable[[Client], Awaitable[None]] = insert,
    delay_s: float = 0,
    query_s: float = 30,
) -> dict[str, list[str]]:
    """Return the settings of an insert with so many servers, which is answered with a status and a code of ClickHouse.

    Raises what the client makes of the answer.
    """
    settings: list[dict[str, list[str]]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            settings.append(parse_qs(urlsplit(self.path).query))
            time.sleep(delay_s)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if code:
                self.send_header("X-ClickHouse-Exception-Code", code)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    async def run() -> None:
        cluster = Servers([f"http://127.0.0.1:{server.server_port}"] * servers, "tally", query_s, ack_s=5)
        try:
            await work(cluster.client)
        finally:
            await cluster.close()

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            asyncio.run(run())
        finally:
            server.shutdown()
    return settings[0]


def test_two_of_several_servers_store_an_insert_before_it_is_answered() -> None:
    settings = sent(3)
    assert settings["insert_quorum"] == ["2"]
    # Its outcome is known before the request of the client is late.
    assert int(settings["insert_quorum_timeout"][0]) < 5_000
    assert settings["insert_deduplication_token"] == ["token"]
    assert settings["async_insert"] == ["0"]
    assert "insert_quorum" not in sent(1)
    assert sent(3, work=copy)["insert_quorum"] == ["2"]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("242", Refused),  # the tables are read-only, since Keeper does not answer
        ("285", Refused),  # fewer servers than the quorum are there
        ("319", NoAnswer),  # fewer than the quorum have stored it in time
        ("", NoAnswer),  # a proxy answers
    ],
)
def test_outcomes_of_an_insert(code: str, outcome: type[Exception]) -> None:
    with pytest.raises(outcome):
        sent(2, 500, code)


def test_what_changes_rows_has_more_time_than_a_report() -> None:
    # An answer may come five seconds after the time of a query.
    late = {"delay_s": 0.5, "query_s": -4.9}
    with pytest.raises(ApiError):
        sent(1, work=read, **late)
    assert "alter table event delete" in sent(1, work=delete, **late)["query"][0]
    # ClickHouse itself ends it before the client gives up.
    assert float(sent(1, work=copy, **late)["max_execution_time"][0]) == 3_600


def test_a_day_is_settled_by_a_server_that_has_what_the_others_have() -> None:
    """What it lacks would be deleted an hour later."""
    with pytest.raises(Refused):
        sent(3, 500, "242", settle_day)
    # One server reads at once.
    with pytest.raises(ApiError):
        sent(1, 500, "242", settle_day)


def test_a_deletion_does_not_wait_for_servers_that_are_away() -> None:
    """It would be recorded once more with each attempt."""
    assert "alter table event delete" in sent(3, 500, "341", delete)["query"][0]
    with pytest.raises(Refused):
        sent(3, 500, "242", delete)
