"""A gigabyte of bodies that nobody signed moves the process's memory by less than 20 MB, however it is sent."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from scraper_pipeline_tests.integration.receiver.receiving import (
    PATH,
    Connection,
    ReceiverProcess,
    new_job_id,
)

# No body comes as far as the database.
pytestmark = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)

MEBIBYTE = 1024 * 1024
GIGABYTE = 1024 * MEBIBYTE
PIECE = b"x" * MEBIBYTE
CHUNK = b"100000\r\n" + PIECE + b"\r\n"
WRONG = {"X-Webhook-Signature": "0" * 64}


def send_until_cut_off(connection: Connection, piece: bytes, size: int) -> None:
    with contextlib.suppress(ConnectionError):
        for _ in range(size // MEBIBYTE):
            connection.send(piece)


def send_without_a_signature(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send_head({"Content-Length": str(GIGABYTE)})
        send_until_cut_off(connection, PIECE, GIGABYTE)


def send_with_a_length(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send_head({**WRONG, "Content-Length": str(GIGABYTE)})
        send_until_cut_off(connection, PIECE, GIGABYTE)


def send_in_chunks(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send_head({**WRONG, "Transfer-Encoding": "chunked"})
        send_until_cut_off(connection, CHUNK, GIGABYTE)


def send_a_header(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send(f"POST {PATH} HTTP/1.1\r\nX-Webhook-Signature: ".encode())
        send_until_cut_off(connection, PIECE, GIGABYTE)


def send_many_headers(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send(f"POST {PATH} HTTP/1.1\r\n".encode())
        send_until_cut_off(connection, b"a: b\r\n" * (MEBIBYTE // 6), GIGABYTE)


def send_trailers(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send_head({**WRONG, "Transfer-Encoding": "chunked"})
        connection.send(b"1\r\nx\r\n0\r\n")
        send_until_cut_off(connection, b"a: b\r\n" * (MEBIBYTE // 6), GIGABYTE)


def send_bodies_of_just_under_the_cap(receiver: ReceiverProcess) -> None:
    for _ in range(GIGABYTE // (15 * MEBIBYTE)):
        with receiver.connect() as connection:
            connection.send_head({**WRONG, "Content-Length": str(15 * MEBIBYTE)})
            send_until_cut_off(connection, PIECE, 15 * MEBIBYTE)
            assert connection.read_answer().status == 401


@pytest.mark.parametrize(
    "send",
    [
        send_without_a_signature,
        send_with_a_length,
        send_in_chunks,
        send_a_header,
        send_many_headers,
        send_trailers,
        send_bodies_of_just_under_the_cap,
    ],
)
def test_a_gigabyte_of_unsigned_body_takes_less_than_20_mb(
    own_receiver: ReceiverProcess, send: Callable[[ReceiverProcess], None]
) -> None:
    for _ in range(20):
        own_receiver.deliver(new_job_id())
    before = own_receiver.peak_memory()
    send(own_receiver)
    assert own_receiver.peak_memory() - before < 20_000_000
    assert own_receiver.deliver(new_job_id()).outcome == "accepted"


def test_broken_off_bodies_give_their_room_back(own_receiver: ReceiverProcess) -> None:
    for _ in range(70):
        with own_receiver.connect() as connection:
            connection.send_head({**WRONG, "Content-Length": str(15 * MEBIBYTE)})
            connection.send(PIECE)
    for _ in range(70):  # of which the first piece is all that ever comes
        with own_receiver.connect() as connection:
            connection.send_head({**WRONG, "Content-Length": str(15 * MEBIBYTE)})
            connection.send(PIECE[: 64 * 1024])
    job_id = new_job_id()
    body = b'{"job_id":"%s","text":"' % job_id.encode() + PIECE * 10 + b'"}'
    assert own_receiver.post_until_taken(body).status == 200
    assert job_id in own_receiver.jobs()


def test_bodies_sent_at_once_share_one_budget(own_receiver: ReceiverProcess) -> None:
    before = own_receiver.peak_memory()

    def send_most_of_one(_: int) -> int:
        with own_receiver.connect(60) as connection:
            connection.send_head({**WRONG, "Content-Length": str(15 * MEBIBYTE)})
            with contextlib.suppress(ConnectionError):
                for _ in range(15):
                    connection.send(PIECE)
            return connection.read_answer().status

    with ThreadPoolExecutor(32) as pool:
        statuses = set(pool.map(send_most_of_one, range(64)))
    assert statuses <= {401, 503}
    assert own_receiver.peak_memory() - before < 100 * MEBIBYTE
    assert own_receiver.deliver(new_job_id()).outcome == "accepted"
