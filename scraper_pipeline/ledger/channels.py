"""Which of the four channels brings the news first, and how long after the job's end."""

from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import select

from scraper_pipeline.ledger.base import StorePart, quantile
from scraper_pipeline.ledger.records import Channel
from scraper_pipeline.ledger.schema import jobs, processed_events

_event, _job = processed_events.c, jobs.c


@dataclass(frozen=True)
class ChannelFigures:
    """One channel's news of a partition's jobs; latency is from the job's completion, in seconds.

    ``first`` counts the jobs whose news it brought before any other channel.
    """

    heard: int = 0
    first: int = 0
    latency_p50: float = 0.0
    latency_p95: float = 0.0


@dataclass
class _Tally:
    heard: int = 0
    first: int = 0
    latencies: list[float] = field(default_factory=list)


class ChannelStore(StorePart):
    """Reads only."""

    def of(self, partition_key: str) -> dict[Channel, ChannelFigures]:
        """Every channel's share of a partition. The service's clock and ours both go into a latency."""
        tallies = {channel: _Tally() for channel in Channel}
        times = {channel: _event[f"{channel}_at"] for channel in Channel}
        with self.reading() as connection:
            rows = connection.execute(
                select(_job.completed_at, *times.values())
                .join(jobs, _job.job_id == _event.job_id)
                .where(self.in_scope(jobs), _job.partition_key == partition_key)
                .execution_options(yield_per=5000)
            )
            for completed_at, *heard in rows:
                news = {channel: at for channel, at in zip(times, heard, strict=True) if at is not None}
                for channel in news:
                    tallies[channel].heard += 1
                if news:
                    first = min(news, key=lambda channel: news[channel])
                    tallies[first].first += 1
                    if completed_at is not None:
                        tallies[first].latencies.append((news[first] - completed_at) / timedelta(seconds=1))
        return {channel: _figures(tally) for channel, tally in tallies.items()}


def _figures(tally: _Tally) -> ChannelFigures:
    ordered = sorted(tally.latencies)
    return ChannelFigures(tally.heard, tally.first, quantile(ordered, 0.5), quantile(ordered, 0.95))
