"""Several accounts are settled at once: whoever waits for the service, or is stopped by it, keeps no other waiting."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scraper_pipeline.ledger import JobOutcome
from scraper_pipeline.lifecycle.settlement import Settlement
from scraper_pipeline.scraper_api import ScraperError

Chunk = Sequence[JobOutcome]
Rounds = AsyncGenerator[Chunk, None]
_REST_SECONDS = 1.0  # before an account that has been quiet is looked at again, while others are at work


@dataclass
class Drain:
    """The settlements of some accounts, by name: a stream of their chunks, each to be committed before the next.

    What of ``stops`` an account meets ends its settlement alone, and is in ``stopped`` then; that of the only account
    is raised at once.
    """

    settlements: Mapping[str, Settlement]
    stops: tuple[type[Exception], ...] = (ScraperError,)
    stopped: dict[str, Exception] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    @property
    def requests_made(self) -> int:
        return sum(one.requests_made for one in self.settlements.values())

    def outcomes(self) -> Iterator[Chunk]:
        """Settle until every account has nothing left, or has been quiet for a while, or has used up its time.

        One that has been quiet goes on as long as another is still at it: no other run settles the same days.
        While a chunk is being committed nothing else happens; the next round of its account begins afterwards.
        """
        if len(self.settlements) == 1:
            yield from next(iter(self.settlements.values())).outcomes()
            return
        with asyncio.Runner() as runner:
            rounds = {name: settlement.rounds() for name, settlement in self.settlements.items()}
            ends = {name: one.monotonic() + one.policy.drain for name, one in self.settlements.items()}
            under_way: dict[asyncio.Task[Chunk | None], str] = {}

            def begin(name: str, rest: float = 0.0) -> None:
                following = _next_chunk(self.settlements[name], rounds[name], rest)
                under_way[runner.get_loop().create_task(following)] = name

            def begin_again(name: str) -> None:
                seconds_left = ends[name] - self.settlements[name].monotonic()
                if seconds_left > 0:
                    rounds[name] = self.settlements[name].rounds(seconds_left)
                    begin(name, _REST_SECONDS)

            try:
                for name in rounds:
                    begin(name)
                while under_way:
                    for task in runner.run(_first_of(under_way)):
                        name = under_way.pop(task)
                        try:
                            chunk = task.result()
                        except self.stops as error:
                            self.stopped[name] = error
                            self._ended.add(name)
                            continue
                        if chunk is not None:
                            yield chunk
                            begin(name)
                            self._ended.discard(name)
                            for other in self._ended - {*under_way.values()} - self.stopped.keys():
                                begin_again(other)  # nobody else settles its days while this one goes on
                        elif self._goes_on(name):
                            begin_again(name)
            finally:
                runner.run(_end(under_way, rounds.values()))

    def _goes_on(self, name: str) -> bool:
        """Whether another account has not been quiet since it had something to commit."""
        self._ended.add(name)
        return self._ended < self.settlements.keys()


async def _next_chunk(settlement: Settlement, rounds: Rounds, rest: float) -> Chunk | None:
    """The next chunk that has something to commit, or None when there will be none."""
    await asyncio.sleep(rest)
    async for chunk in rounds:
        if chunk:
            return chunk
        await asyncio.sleep(settlement.pause)
    return None


async def _first_of(tasks: Mapping["asyncio.Task[Chunk | None]", str]) -> "set[asyncio.Task[Chunk | None]]":
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return done


async def _end(tasks: Mapping["asyncio.Task[Chunk | None]", str], rounds: Iterable[Rounds]) -> None:
    """Break off what is under way: clients are closed and leases dropped by it."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for one in rounds:
        await one.aclose()
