"""Bodies are read up to their cap and their shared room, which is given back whatever ends the reading."""

import asyncio

import pytest

from scraper_pipeline.receiver.bodies import (
    BodyReader,
    BodyTooLarge,
    BodyTooSlow,
    NoRoom,
    SenderGone,
    skip_body,
)


def sender(*messages: bytes | None):
    """Receives these pieces, of which None stands for a closed connection, and then nothing for ever."""
    queue = list(messages)

    async def receive():
        if not queue:
            await asyncio.Event().wait()
        piece = queue.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": piece != b""}

    return receive


def reader(**changes) -> BodyReader:
    return BodyReader(**{"max_bytes": 10, "capacity": 16, "seconds": 5.0, **changes})


async def test_a_body_in_pieces_is_put_together():
    body = await reader().read(sender(b"ab", b"cd", b""))
    assert body.join() == b"abcd"


async def test_a_body_of_the_cap_is_taken_and_one_more_byte_is_not():
    assert (await reader().read(sender(b"x" * 10, b""))).join() == b"x" * 10
    with pytest.raises(BodyTooLarge):
        await reader().read(sender(b"x" * 5, b"x" * 6))
    with pytest.raises(BodyTooLarge):
        reader().take(b"x" * 11)


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([b"x" * 9, None], SenderGone),
        ([b"x", b"x" * 8, None], SenderGone),
        ([b"x" * 9, b"x" * 2], BodyTooLarge),
        ([b"x" * 9], BodyTooSlow),
        ([None], SenderGone),
    ],
)
async def test_room_is_given_back_whatever_ends_the_reading(pieces, error):
    bodies = reader(seconds=0.01)
    for _ in range(3):
        with pytest.raises(error):
            await bodies.read(sender(*pieces))
    assert (await bodies.read(sender(b"x" * 10, b""))).join() == b"x" * 10


async def test_bodies_share_their_room_until_they_are_released():
    bodies = reader()
    first = await bodies.read(sender(b"x" * 10, b""))
    with pytest.raises(NoRoom):
        await bodies.read(sender(b"x" * 10, b""))
    bodies.release(first)
    bodies.release(await bodies.read(sender(b"x" * 10, b"")))


async def test_what_a_refused_sender_sends_is_stepped_over_to_its_end():
    receive = sender(b"x", b"y", b"", b"the next request")
    await skip_body(receive)
    assert (await receive())["body"] == b"the next request"
