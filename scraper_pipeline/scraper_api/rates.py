"""How many requests a second a service admits, learnt from those that it refuses."""

import math
from collections import deque
from dataclasses import dataclass

_MARGIN = 0.95
_PLATEAU_SECONDS = 30.0
_PROBING_SECONDS = 25.0
_PROBING_STEP = 20.0
_LIFTED_AFTER = 1.3
_HASTE_UNTIL_CONFIRMED = 0.2
_MOST_SECONDS_A_REQUEST = 1.0
_COUNTED_SECONDS = 1.0
_LEAST_COUNTED = 5
_JITTER_SECONDS = 0.02
_LATEST_REFUSAL_SECONDS = 10.0
_LONGEST_FUTILE_WAIT = 10.0


@dataclass
class _Lesson:
    """What a refusal teaches: so many were admitted in the `span` seconds before it. `lowest` and `highest` are rates.

    `haste` shortens all that follows, until a plateau has held and thereby confirmed the limit.
    """

    admitted: list[float]
    span: float
    lowest: float
    highest: float
    haste: float
    used_seconds: float = 0.0

    @property
    def limit(self) -> float:
        return min(self.highest, max(self.lowest, len(self.admitted) / self.span))

    @property
    def rate(self) -> float:
        """A plateau just under the limit, then slowly beyond it, and by leaps where nothing has been refused yet.

        One part of the growth is in proportion to the rate, to reach any other limit. The other is the same for all
        who share this one, so that the slower ones catch up.
        """
        return _MARGIN * self.limit * math.exp(self._probed**3) + _PROBING_STEP * self._probed**3

    @property
    def is_confirmed(self) -> bool:
        return self._probed > 0

    @property
    def is_outlived(self) -> bool:
        """At some ten times the limit and more there is none any longer."""
        return self._probed >= _LIFTED_AFTER

    @property
    def _probed(self) -> float:
        return max(0.0, self.used_seconds / self.haste - _PLATEAU_SECONDS) / _PROBING_SECONDS


class LearnedRate:
    """A rate just under a limit that nobody tells; not safe for threads.

    What was admitted in the second before a refusal is the limit, where the service counts by fixed or sliding windows
    of a second. A bucket of tokens admits more until it is empty, and a few refusals lead down to its rate. From a
    lesson on the rate follows a cubic, as in CUBIC (RFC 9438), but with a long plateau, since a refusal may cost
    everybody a pause. Its time counts only as far as requests were answered in it: an idle hour proves nothing.

    All times are the caller's monotonic seconds, and a request is known by when it was sent.
    """

    def __init__(self, least: float) -> None:
        self._least = least
        self._lesson: _Lesson | None = None
        self._sent: deque[float] = deque()
        self._learnt_at = float("-inf")
        self._heeds_from = float("-inf")
        self._futile_waits = 0

    @property
    def value(self) -> float | None:
        """Requests a second; None while there is no limit."""
        return None if self._lesson is None else max(self._least, self._lesson.rate)

    def sent(self, at: float) -> None:
        self._sent.append(at)
        while self._sent[0] < at - self._span - _LATEST_REFUSAL_SECONDS:
            self._sent.popleft()

    def answered(self, at: float) -> None:
        """A request was answered without complaint."""
        lesson, rate = self._lesson, self.value
        if lesson is None or rate is None or at < self._learnt_at:
            return
        lesson.used_seconds += min(1.0 / rate, _MOST_SECONDS_A_REQUEST)
        self._futile_waits = 0
        if lesson.is_outlived:
            self._lesson = None

    def refused(self, at: float, now: float, resumes_at: float) -> float:
        """A request was refused, and all wait until `resumes_at`, or until the later moment that this returns.

        It is no news if it left before the last refusal that was heeded, or so soon after it that the service may still
        have counted what had been sent before.
        """
        if at in self._sent:
            self._sent.remove(at)
        if at < self._heeds_from:
            self._correct(at)
            return resumes_at
        if self._lesson is not None and self._lesson.used_seconds == 0.0:
            # Nothing at all is admitted: that tells when to ask again, and no rate.
            resumes_at = max(resumes_at, now + min(_LONGEST_FUTILE_WAIT, 2.0**self._futile_waits))
            self._futile_waits += 1
        else:
            self._learn(at)
            self._learnt_at = now
        self._heeds_from = resumes_at if resumes_at > now else now + _COUNTED_SECONDS
        return resumes_at

    @property
    def _span(self) -> float:
        """The seconds in which requests are counted: one, or more where these would be too few."""
        rate = self.value
        return _COUNTED_SECONDS if rate is None else max(_COUNTED_SECONDS, _LEAST_COUNTED / rate)

    def _learn(self, at: float) -> None:
        last, rate, span = self._lesson, self.value, self._span
        admitted = [sent for sent in self._sent if at - span - _JITTER_SECONDS < sent <= at]
        if last is None or rate is None:
            lowest = max(self._least, 1.0 / span)
            self._lesson = _Lesson(admitted, span, lowest, math.inf, _HASTE_UNTIL_CONFIRMED)
            return
        # No less than half: a span that overlaps a pause holds too few requests to tell.
        lowest = max(self._least, rate / 2)
        # Less than the last time if the plateau did not hold: requests arrive less evenly than they are sent.
        highest = max(rate, (rate + last.limit) / 2)
        haste = 1.0 if last.is_confirmed else last.haste
        self._lesson = _Lesson(admitted, span, lowest, highest, haste)

    def _correct(self, at: float) -> None:
        """Of what was taken for admitted, one turns out to have been refused as well."""
        if self._lesson is not None and self._lesson.used_seconds == 0.0 and at in self._lesson.admitted:
            self._lesson.admitted.remove(at)
