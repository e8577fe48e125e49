"""Bodies whose length is declared wrongly or not at all: never more than was declared, and never without end."""

import contextlib

import pytest

from scraper_pipeline_tests.integration.receiver.receiving import (
    Answer,
    Connection,
    ReceiverProcess,
    envelope,
    new_job_id,
    sign,
)

MEBIBYTE = 1024 * 1024
TEN = b'{"a":"bc"}'


def _send_behind(connection: Connection, mebibytes: int) -> None:
    """Send more than was declared, for as long as the other side listens."""
    with contextlib.suppress(ConnectionError):
        for _ in range(mebibytes):
            connection.send(b"x" * MEBIBYTE)


def _answers(connection: Connection) -> list[Answer]:
    """Every answer up to the end of the connection."""
    answers = []
    with contextlib.suppress(ConnectionError):
        while True:
            answers.append(connection.read_answer())
    return answers


@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "unsigned"])
def test_ten_megabytes_behind_a_body_of_ten_bytes_are_neither_hashed_nor_kept(
    own_receiver: ReceiverProcess, is_signed: bool
) -> None:
    own_receiver.deliver(new_job_id())
    jobs, before = own_receiver.jobs(), own_receiver.peak_memory()
    with own_receiver.connect() as connection:
        signature = sign(TEN) if is_signed else sign(TEN + b"x" * 10 * MEBIBYTE)
        connection.send_head({"Content-Length": "10", "X-Webhook-Signature": signature})
        connection.send(TEN)
        _send_behind(connection, 10)
        first, *others = _answers(connection)
    assert first.status in (400, 200 if is_signed else 401)
    assert [one.status for one in others] in ([], [400]), "what is behind is no second request"
    kept = own_receiver.quarantined()
    assert kept == [("no job id", TEN)] or (kept == [] and first.status != 200)
    assert own_receiver.jobs() == jobs
    assert own_receiver.peak_memory() - before < 20_000_000
    assert own_receiver.deliver(new_job_id()).outcome == "accepted"


def test_a_body_whose_length_is_not_declared_is_no_body(own_receiver: ReceiverProcess) -> None:
    body = envelope(new_job_id())
    with own_receiver.connect() as connection:
        connection.send_head({"X-Webhook-Signature": sign(body)})
        connection.send(body)
        assert {answer.status for answer in _answers(connection)} <= {400, 401, 411}
    assert own_receiver.jobs() == set()
    assert own_receiver.quarantined() == []
