"""Serves a ledger's metrics over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector


@contextmanager
def serving(collector: Collector, host: str, port: int) -> Iterator[int]:
    """Answer ``GET /metrics`` in threads of this process; gives the port, a free one for 0.

    Raises OSError where the address can't be had.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(port, host, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
