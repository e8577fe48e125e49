"""The limit on requests a second, in the forms in which services count them."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

RateForm = Literal["bucket", "fixed", "sliding"]
"""A bucket of one second's tokens, a count that begins anew each second, or one over the second that is just past."""

_ROUNDING = 1e-9


@dataclass
class RateLimiter:
    """What has been admitted so far. Below one request a second the second is as long as one takes."""

    _tokens: float = 0.0
    _filled_at: float | None = None
    _admitted: deque[float] = field(default_factory=deque)

    def forget(self) -> None:
        """From here on everything is as if nothing had been asked."""
        self._filled_at = None
        self._admitted.clear()

    def wait(self, rate: float, form: RateForm, now: float) -> float:
        """Seconds until a request is admitted; with 0 this one is."""
        if form == "bucket":
            return self._wait_for_token(rate, now)
        second = max(1.0, 1.0 / rate)

        def counts_until(at: float) -> float:
            return at + second if form == "sliding" else (at // second + 1) * second

        while self._admitted and counts_until(self._admitted[0]) <= now:
            self._admitted.popleft()
        if len(self._admitted) + 1 <= rate * second + _ROUNDING:
            self._admitted.append(now)
            return 0.0
        return counts_until(self._admitted[0]) - now

    def _wait_for_token(self, rate: float, now: float) -> float:
        most = max(rate, 1.0)
        if self._filled_at is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + (now - self._filled_at) * rate)
        self._filled_at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / rate
