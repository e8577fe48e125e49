"""The receiver as a server: uvicorn on a socket that listens before the first delivery can be refused."""

import gc
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from scraper_pipeline.receiver.app import STOP_SECONDS, Receiver
from scraper_pipeline.receiver.connections import DeliveryProtocol

_BACKLOG = 2048
_ALLOCATIONS_BETWEEN_COLLECTIONS = 10_000  # the default of 700 is reached by a dozen deliveries
_SWITCH_SECONDS = (
    0.0005  # the committing thread must not wait for the busy event loop after each of its system calls
)


def serve(
    app: Receiver,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    ready_file: Path | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve until SIGTERM or Ctrl-C; what was read by then is committed and answered.

    `announce` gets the address once connections are accepted; `ready_file`, if given, then holds it too. Raises
    `OSError` when the address is taken.
    """
    listener = _listen(host, port)
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    options = uvicorn.Config(
        app,
        loop="uvloop",
        http=DeliveryProtocol,
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None
        if logging.getLogger().handlers
        else uvicorn.config.LOGGING_CONFIG,  # the process's own first
        log_level="error",  # a warning for each malformed request would let anybody fill the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(STOP_SECONDS),
    )
    announce(url)
    if ready_file is not None:
        part = ready_file.with_name(f"{ready_file.name}.part")
        part.write_text(f"{url}\n", encoding="utf-8")
        part.replace(ready_file)
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()  # what is here now stays: no collection need look at it again
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS)
    with suppress(KeyboardInterrupt):  # the ordinary end, which uvicorn passes on
        uvicorn.Server(options).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
