"""What a list would add to a day: read as planning it would read it, and nothing is changed."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import Any

from scraper_pipeline.ledger import Kind, Ledger, Target
from scraper_pipeline.target_lists import Duplicate, Rejected, TargetList, TargetListError


@dataclass
class ListReading:
    """What a list adds to a day; ``groups`` counts its new targets by kind and options."""

    target_list: TargetList
    day: date
    targets: int = 0
    new: int = 0
    pages: int = 0
    beyond_budget: int = 0
    groups: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    problems: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None

    def read(self, ledger: Ledger, new: set[str]) -> None:
        """Read the list as planning it would; ``new`` are the targets that the lists before it add to the day."""
        room = ledger.lists.pages_left(self.day.isoformat(), self.target_list.terms)
        entries = self.target_list.read(self.day)
        try:
            while some := list(islice(entries, 500)):
                room = self._add(ledger, some, new, room)
        except TargetListError as error:
            self.error = str(error)

    def _add(
        self,
        ledger: Ledger,
        entries: Sequence[Target | Rejected | Duplicate],
        new: set[str],
        room: int | None,
    ) -> int | None:
        targets = [entry for entry in entries if isinstance(entry, Target)]
        ids = [target.target_id for target in targets]
        day, name = self.day.isoformat(), self.target_list.name
        known = ledger.submissions.planned_targets(day, ids, name) | new.intersection(ids)
        self.targets += len(targets)
        self.problems += [self._problem(entry) for entry in entries if not isinstance(entry, Target)]
        for target in targets:
            if target.target_id in known:
                continue
            if room is not None and target.most_pages > room:
                self.beyond_budget += 1
                continue
            room = None if room is None else room - target.most_pages
            new.add(target.target_id)
            kind = Kind.CRAWL if target.is_crawl else Kind.EXTRACT
            self.new, self.pages = self.new + 1, self.pages + target.most_pages
            self.groups[kind, json.dumps(target.options, sort_keys=True)] += 1
        return room

    def _problem(self, entry: Rejected | Duplicate) -> dict[str, Any]:
        reason = entry.reason if isinstance(entry, Rejected) else f"the same as line {entry.first_line}"
        return {"list": self.target_list.name, "line": entry.line, "reason": reason}

    @property
    def figures(self) -> dict[str, Any]:
        terms = self.target_list.terms
        return {
            "list": self.target_list.name, "account": self.target_list.account,
            "source": self.target_list.source.shown(self.day), "schedule": self.target_list.schedule,
            "targets": self.targets, "new": self.new,
            "most_pages_paid_for_new": self.pages, "max_pages_per_day": terms.pages_per_day,
            "max_pages_per_month": terms.pages_per_month, "beyond_budget": self.beyond_budget,
            "problems": len(self.problems),
        }  # fmt: skip
