"""A desk at which pages are followed: a folder, a ledger, a sandbox of the service, and somebody who works the UI."""

import asyncio
import doctest
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import click
import click.testing
import pytest

from scraper_pipeline.accounts import lifecycle_policy, open_client, open_ledger
from scraper_pipeline.cli import main
from scraper_pipeline.ledger import Channel, Ledger, Target
from scraper_pipeline.lifecycle import Settlement, submit_jobs
from scraper_pipeline.publishing import open_place, publish_pages
from scraper_pipeline.sandbox import SandboxServer
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.target_lists import load_target_lists
from scraper_pipeline_tests.documents import ROOT, Document
from scraper_pipeline_tests.integration.documents.reading import (
    Command,
    Note,
    Statement,
    Step,
    agrees,
    steps,
)

_SHOWN_SANDBOX, _SHOWN_FOLDER = "127.0.0.1:8765", "/home/you/scraper_pipeline"
_SERVING = {"demo", "dev", "receiver", "sandbox"}
_BY_HAND = {"cd", "git", "make"}  # what gets the reader to the checkout, and serves until Ctrl-C
_OF_A_SHELL = {"|", ">", ">>", "&&", ";", "for"}
_TERMINAL = {"completed", "failed", "cancelled"}


@dataclass
class Desk:
    """Follows pages, each from its first block to its last, and raises AssertionError where one is not right."""

    folder: Path
    sandbox: SandboxServer
    environ: pytest.MonkeyPatch
    _names: dict[str, Any] = field(default_factory=dict, repr=False)

    def follow(self, page: Document) -> None:
        for step in steps(page):
            self._take(page, step)

    def _take(self, page: Document, step: Step) -> None:
        if isinstance(step, Note):
            self._happen(step)
        elif isinstance(step, Command):
            status, printed = self.run(self.real(step.text))
            where = f"{page.name}, line {step.line}: $ {step.text}"
            assert status == step.status, f"{where}\nended with {status}:\n{printed}"
            shown = self.real(step.shown)
            is_as_shown = not shown or printed is None or agrees(shown, printed)
            assert is_as_shown, f"{where}\nshows\n{shown}\nand printed\n{printed}"
        elif step.language == "pycon":
            self._evaluate(page, step)
        elif not step.text.startswith("-- DuckDB"):
            self._query(step)

    def real(self, text: str) -> str:
        """What a page says, for the folder and the sandbox of this desk."""
        address = self.sandbox.url.removeprefix("http://")
        return text.replace(_SHOWN_SANDBOX, address).replace(_SHOWN_FOLDER, str(self.folder))

    def run(self, text: str) -> tuple[int, str | None]:
        """Type a command; its status, and all that it prints, or None if it is not one that can be run here."""
        words = shlex.split(text, comments=True)
        if words[0] == ".":
            self._read_settings(ROOT / words[1])
        elif words[0] == "export":
            self._set(words[1:])
        elif words[0] == "scraper-pipeline" and words[1] in _SERVING:
            self._prepare(*words[1:])
        elif words[0] == "scraper-pipeline" and not _OF_A_SHELL & set(words):
            result = click.testing.CliRunner().invoke(main, words[1:])
            return result.exit_code, result.output
        elif words[0] not in _BY_HAND:
            return self.run_in_a_shell(text)
        return 0, None

    def _read_settings(self, path: Path) -> None:
        if path.suffix == ".env":
            for line in self.real(path.read_text("utf-8")).splitlines():
                words = shlex.split(line, comments=True)
                self._set(words[1:])

    def _set(self, assignments: Sequence[str]) -> None:
        for assignment in assignments:
            name, _, value = assignment.partition("=")
            self.environ.setenv(name, value.replace("$PWD", str(self.folder)))

    def run_in_a_shell(self, text: str) -> tuple[int, str]:
        """The same in processes of its own."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", text],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    def _prepare(self, name: str, *arguments: str) -> None:
        """Of what serves until Ctrl-C only the options are read; the faults are those of the sandbox that runs."""
        command = main.get_command(click.Context(main), name)
        assert command is not None
        context = command.make_context(name, list(arguments))
        if name == "sandbox":
            self.sandbox.set_faults(**json.loads(context.params["faults_json"]))

    def _happen(self, note: Note) -> None:
        if note.subject == "list":
            lines = [f"{self.sandbox.url}/site/{path}" for path in note.text.split()]
            (self.folder / "targets.csv").write_text("\n".join(["url", *lines, ""]))
        elif note.subject == "in Dagster":
            job, *days = note.text.split()
            assert job in ("submit_jobs", "job_status_sensor"), f"nobody knows how to do {note.text!r}"
            settings = load_settings()
            with open_ledger(settings) as ledger:
                for day in days:
                    for one in load_target_lists(settings.targets):
                        entries = one.read(date.fromisoformat(day))
                        targets = [entry for entry in entries if isinstance(entry, Target)]
                        ledger.submissions.plan(day, targets, one.terms)
                self._work(ledger, settings)

    def _work(self, ledger: Ledger, settings: Settings) -> None:
        """What the sensor's runs do, until nothing of any day is left to be done."""
        policy = lifecycle_policy(settings)

        async def submit(day: str) -> None:
            async with open_client(settings) as client:
                await submit_jobs(ledger, client, day, policy)

        days = [one.partition_key for one in ledger.progress.revisions(100)]
        while not all(ledger.progress.of(day).is_settled for day in days):
            for pending in ledger.progress.partitions_to_submit():
                asyncio.run(submit(pending.partition_key))
            ledger.news.record(self._ended(), Channel.POLL)
            settlement = Settlement(ledger, lambda: open_client(settings), days, policy)
            for outcomes in settlement.outcomes():
                ledger.outcomes.commit(outcomes)
        for day in days:
            publish_pages(ledger, open_place(settings.pages_url), day)

    def _ended(self) -> list[str]:
        """Every job of the service, once all have ended."""
        while True:
            truth = self.sandbox.truth()
            jobs = [*truth["jobs"], *truth["batches"], *truth["crawls"]]
            if all(job["status"] in _TERMINAL for job in jobs):
                return [job["job_id"] for job in jobs]
            time.sleep(0.01)

    def _evaluate(self, page: Document, step: Statement) -> None:
        parser, flags = doctest.DocTestParser(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        session = parser.get_doctest(f"{self.real(step.text)}\n", {}, page.name, str(page.path), step.line)
        session.globs = self._names
        said: list[str] = []
        result = doctest.DocTestRunner(optionflags=flags).run(session, out=said.append, clear_globs=False)
        assert not result.failed, "".join(said)

    def _query(self, step: Statement) -> None:
        with open_ledger(load_settings()) as ledger, ledger.engine.connect() as connection:
            for statement in step.text.split(";"):
                if statement.strip():
                    connection.exec_driver_sql(statement).all()
