"""A page's own choices: made by its number, so that the page is the same whenever it is asked for."""

from collections.abc import Sequence
from typing import TypeVar

from scraper_pipeline.sandbox.chance import draw

T = TypeVar("T")


class Choice:
    """A row of choices that depends on nothing but the page's number and the order in which they are made."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._made = 0

    def between(self, least: int, most: int) -> int:
        """A whole number, both ends included."""
        self._made += 1
        return least + int(draw(self._number, self._made) * (most - least + 1))

    def one_of(self, options: Sequence[T]) -> T:
        return options[self.between(0, len(options) - 1)]

    def some_of(self, options: Sequence[T], count: int) -> list[T]:
        """That many different ones, in a new order."""
        left = list(options)
        return [left.pop(self.between(0, len(left) - 1)) for _ in range(min(count, len(left)))]
