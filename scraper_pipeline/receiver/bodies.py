"""Reads bodies under a cap for each and a cap for all together, and keeps nothing beyond either."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Message, Receive

_LINGER_SECONDS = 5.0


class BodyRefused(Exception):
    """The body was not read to its end."""


class BodyTooLarge(BodyRefused):
    """It has more bytes than are taken."""


class BodyTooSlow(BodyRefused):
    """It was not sent in time."""


class NoRoom(BodyRefused):
    """The bodies that are being read take all the memory that they may."""


class SenderGone(BodyRefused):
    """The connection was closed before its end."""


@dataclass(slots=True)
class Body:
    """A body as it came, in at least one piece; only what is known to be signed is put together."""

    pieces: list[bytes]
    held: int = 0
    """How many of its bytes count towards the capacity that all bodies share."""

    def join(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)


class BodyReader:
    """``capacity`` is shared by all bodies that came in several pieces and are not released yet."""

    def __init__(self, *, max_bytes: int, capacity: int, seconds: float) -> None:
        self._max_bytes, self._capacity, self._seconds = max_bytes, capacity, seconds
        self._held = 0

    def take(self, content: bytes) -> Body:
        """A body that has come as a whole. Raises BodyTooLarge."""
        if len(content) > self._max_bytes:
            raise BodyTooLarge
        return Body([content])

    async def read(self, receive: Receive) -> Body:
        """The whole body, to be released after use. Raises BodyRefused as soon as it is certain."""
        try:
            async with asyncio.timeout(self._seconds):
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body", False):
                    return self.take(message["body"])
                return await self._read_on(message, receive)
        except TimeoutError:
            raise BodyTooSlow from None

    async def _read_on(self, message: Message, receive: Receive) -> Body:
        body = Body([])
        try:
            while True:
                if message["type"] != "http.request":
                    raise SenderGone
                piece: bytes = message["body"]
                if body.held + len(piece) > self._max_bytes:
                    raise BodyTooLarge
                if self._held + len(piece) > self._capacity:
                    raise NoRoom
                body.pieces.append(piece)
                body.held += len(piece)
                self._held += len(piece)
                if not message.get("more_body", False):
                    return body
                message = await receive()
        except BaseException:
            self.release(body)  # also when the request is cancelled: its room would never be given back
            raise

    def release(self, body: Body) -> None:
        self._held -= body.held
        body.held = 0
        body.pieces.clear()


async def skip_body(receive: Receive) -> None:
    """Step over what a refused sender still sends, for a while: one that is cut off too early never sees its answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            more = True
            while more:
                message = await receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
