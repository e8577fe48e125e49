"""An acknowledged delivery is durable, whatever ends the process; in an outage of the database senders come again."""

import contextlib
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from scraper_pipeline_tests.integration.receiver.receiving import (
    Connection,
    ReceiverProcess,
    envelope,
    new_job_id,
    running_receiver,
    sign,
)
from scraper_pipeline_tests.postgres import EphemeralPostgres


class Senders:
    """Keeps delivering over some connections until the receiver is gone, and notes which jobs were acknowledged."""

    def __init__(self, receiver: ReceiverProcess, connections: int = 16) -> None:
        self.acknowledged: set[str] = set()
        self.sent: set[str] = set()
        self.other_answers: list[int] = []
        self._port = receiver.port
        self._threads = [threading.Thread(target=self._deliver_all) for _ in range(connections)]

    def __enter__(self) -> "Senders":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()

    def wait_for(self, acknowledged: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.acknowledged) < acknowledged:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _deliver_all(self) -> None:
        with contextlib.suppress(ConnectionError), Connection(self._port) as connection:
            while True:
                job_id = new_job_id()
                body = envelope(job_id)
                self.sent.add(job_id)
                connection.send_head({"Content-Length": str(len(body)), "X-Webhook-Signature": sign(body)})
                connection.send(body)
                answer = connection.read_answer()
                if answer.status == 200:
                    self.acknowledged.add(job_id)
                else:
                    self.other_answers.append(answer.status)


def test_r9_killed_under_load_it_has_lost_no_acknowledged_delivery(own_receiver: ReceiverProcess) -> None:
    for _ in range(3):
        with Senders(own_receiver) as senders:
            senders.wait_for(300)
            own_receiver.kill()
        assert senders.acknowledged <= own_receiver.jobs()
        own_receiver.start()


def test_stopped_under_load_it_answers_what_it_has_read_and_keeps_it(own_receiver: ReceiverProcess) -> None:
    with Senders(own_receiver) as senders:
        senders.wait_for(300)
        assert own_receiver.stop() in (0, -signal.SIGTERM)
    assert senders.acknowledged <= own_receiver.jobs()
    assert senders.other_answers == []
    own_receiver.start()


def test_a_delivery_that_is_being_read_when_it_is_stopped_is_still_answered(
    own_receiver: ReceiverProcess,
) -> None:
    job_id = new_job_id()
    body = envelope(job_id)
    process = own_receiver.process
    assert process is not None
    with own_receiver.connect() as connection:
        headers = {"Content-Length": str(len(body)), "X-Webhook-Signature": sign(body)}
        connection.send_head({**headers, "Expect": "100-continue"})
        assert connection.read_answer().status == 100, "the head is read, and the body awaited"
        connection.send(body[:50])
        process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        connection.send(body[50:])
        assert connection.read_answer().outcome == "accepted"
    process.wait(30)
    assert job_id in own_receiver.jobs()


@pytest.fixture
def outage_server() -> Iterator[EphemeralPostgres]:
    """A server of the test's own, since it will be stopped."""
    with EphemeralPostgres(durable=True) as server:  # for what it forgot in a crash would be no fault of ours
        yield server


@pytest.mark.postgres
def test_r9_while_postgres_is_down_senders_are_told_to_come_again(
    outage_server: EphemeralPostgres, tmp_path: Path
) -> None:
    url = outage_server.url(outage_server.create_database())
    with running_receiver(url, tmp_path, "--commit-timeout", "2") as receiver:
        outage_server.stop(how=signal.SIGQUIT)
        job_id = new_job_id()
        answer = receiver.deliver(job_id)
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert receiver.get("/healthz").status == 200
        assert receiver.get("/readyz").status == 503
        outage_server.start()
        receiver.wait_until_ready()
        assert receiver.post_until_taken(envelope(job_id)).status == 200
        assert job_id in receiver.jobs()
        assert "postgres:" not in receiver.log()


@pytest.mark.postgres
def test_it_starts_while_postgres_is_down_and_works_once_that_is_back(
    outage_server: EphemeralPostgres, tmp_path: Path
) -> None:
    url = outage_server.url(outage_server.create_database())
    outage_server.stop()
    with ReceiverProcess(url, tmp_path, "--commit-timeout", "2") as receiver:
        assert receiver.deliver(new_job_id()).status == 503
        assert outage_server.password not in receiver.log()
        outage_server.start()
        receiver.wait_until_ready()
        job_id = new_job_id()
        assert receiver.post_until_taken(envelope(job_id)).status == 200
        assert receiver.jobs() == {job_id}


@contextlib.contextmanager
def locked_table(url: str) -> Iterator[None]:
    """Nobody else can write to the table for the length of the block."""
    engine = create_engine(url)
    with engine.connect() as connection:
        connection.execute(text("LOCK TABLE processed_events IN ACCESS EXCLUSIVE MODE"))
        yield
    engine.dispose()


@pytest.mark.postgres
def test_a_database_that_hangs_is_answered_for_in_time(
    outage_server: EphemeralPostgres, tmp_path: Path
) -> None:
    name = outage_server.create_database()
    with running_receiver(outage_server.url(name), tmp_path, "--commit-timeout", "1") as receiver:
        with locked_table(outage_server.url(name)):
            began = time.monotonic()
            assert receiver.deliver(new_job_id()).status == 503
            assert time.monotonic() - began < 15
        receiver.wait_until_ready()
        job_id = new_job_id()
        assert receiver.post_until_taken(envelope(job_id)).status == 200
        assert job_id in receiver.jobs()


def test_r9_while_another_process_holds_the_file_senders_are_told_to_come_again(
    sqlite_url: str, tmp_path: Path
) -> None:
    with running_receiver(sqlite_url, tmp_path, "--commit-timeout", "1") as receiver:
        holder = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        answer = receiver.deliver(new_job_id())
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert time.monotonic() - began < 15
        holder.execute("ROLLBACK")
        holder.close()
        job_id = new_job_id()
        assert receiver.post_until_taken(envelope(job_id)).status == 200
        assert job_id in receiver.jobs()
