"""Chance that can be repeated: the same seed and the same words give the same number."""

from hashlib import blake2b


def draw(seed: int, *words: str | int) -> float:
    """A number in [0, 1) that depends on nothing but the arguments.

    No state is involved, so what befalls one job does not depend on which others were served before it.
    """
    text = "\x1f".join(str(word) for word in (seed, *words))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
