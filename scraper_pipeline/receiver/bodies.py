"""Reads bodies under a cap for each and a cap for all together, and keeps nothing beyond either."""

import asyncio
from contextlib import suppress

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


Pieces = list[bytes]
"""A body as it came. It is joined once it is known to be signed: until then nothing is held twice."""


class BodyReader:
    """``capacity`` is shared by all bodies that came in several pieces and are not released yet."""

    def __init__(self, *, max_bytes: int, capacity: int, seconds: float) -> None:
        self._max_bytes, self._capacity, self._seconds = max_bytes, capacity, seconds
        self._held = 0

    async def read(self, receive: Receive) -> Pieces:
        """The whole body, to be released after use. Raises BodyRefused as soon as it is certain."""
        try:
            async with asyncio.timeout(self._seconds):
                message = await receive()
                if message["type"] == "http.request" and not message.get("more_body", False):
                    if len(message["body"]) > self._max_bytes:
                        raise BodyTooLarge
                    return [message["body"]]
                return await self._read_on(message, receive)
        except TimeoutError:
            raise BodyTooSlow from None

    async def _read_on(self, message: Message, receive: Receive) -> Pieces:
        pieces: Pieces = []
        size = 0
        try:
            while True:
                if message["type"] != "http.request":
                    raise SenderGone
                piece: bytes = message["body"]
                size += len(piece)
                if size > self._max_bytes:
                    raise BodyTooLarge
                if self._held + len(piece) > self._capacity:
                    raise NoRoom
                pieces.append(piece)
                self._held += len(piece)
                if not message.get("more_body", False):
                    return pieces
                message = await receive()
        except BaseException:
            self.release(pieces)
            raise

    def release(self, pieces: Pieces) -> None:
        if len(pieces) > 1:
            self._held -= sum(map(len, pieces))
            pieces.clear()


async def skip_body(receive: Receive) -> None:
    """Step over what a refused sender still sends, for a while: one that is cut off too early never sees its answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            more = True
            while more:
                message = await receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
