"""Moments at which a process kills itself (SIGKILL: no `finally`, no rollback of its own).

They are hooks that are set here and nowhere in the pipeline. A moment is one of

* `call <Class>.<method> <n>`: after the nth call that returned something,
* `statement <text> <n>`: in place of the nth SQL statement that contains the text,
* `commit <text>`: after all statements of the first transaction that contained the text, before its COMMIT.
"""

import asyncio
import functools
import os
import signal
from typing import Any, NoReturn

from sqlalchemy import Engine, event

from scraper_pipeline.ledger.inbox import InboxStore
from scraper_pipeline.ledger.news import NewsStore
from scraper_pipeline.ledger.outcomes import OutcomeStore
from scraper_pipeline.ledger.submissions import SubmissionStore
from scraper_pipeline.ledger.webhooks import WebhookStore
from scraper_pipeline.scraper_api import ScraperClient

_OWNERS = (SubmissionStore, OutcomeStore, NewsStore, InboxStore, WebhookStore, ScraperClient)
_CLASSES = {one.__name__: one for one in _OWNERS}


def die_at(moment: str, engine: Engine | type[Engine]) -> None:
    """Have this process die at a moment; statements are those of an engine, or of all. Without a moment it lives."""
    kind, _, rest = moment.partition(" ")
    if kind == "call":
        name, _, nth = rest.partition(" ")
        _die_after_call(name, int(nth))
    elif kind == "statement":
        text, _, nth = rest.rpartition(" ")
        _die_at_statement(engine, text, int(nth))
    elif kind == "commit":
        _die_at_commit(engine, rest)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _die_after_call(name: str, nth: int) -> None:
    owner, _, method = name.partition(".")
    original = getattr(_CLASSES[owner], method)
    calls = 0

    def count(returned: Any) -> Any:
        nonlocal calls
        calls += bool(returned)
        if calls >= nth:
            _die()
        return returned

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        return count(original(*arguments, **named))

    @functools.wraps(original)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        return count(await original(*arguments, **named))

    setattr(_CLASSES[owner], method, call_async if asyncio.iscoroutinefunction(original) else call)


def _die_at_statement(engine: Engine | type[Engine], text: str, nth: int) -> None:
    seen = 0

    @event.listens_for(engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal seen
        seen += text in statement
        if seen >= nth:
            _die()


def _die_at_commit(engine: Engine | type[Engine], text: str) -> None:
    seen = False

    @event.listens_for(engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal seen
        seen = seen or text in statement

    @event.listens_for(engine, "commit")
    def commit(_connection: Any) -> None:
        if seen:
            _die()
