"""The databases and roles of deploy/postgres, made on a server of the tests."""

from dataclasses import dataclass, field
from secrets import token_hex

import psycopg

from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.postgres import EphemeralPostgres

SCRIPTS = project_folder() / "deploy" / "postgres"
LEDGER_ROLES = ("scraper_owner", "scraper_pipeline", "scraper_receiver", "scraper_metrics")


@dataclass(frozen=True)
class Roles:
    """A ledger's database with its roles, all of one password."""

    server: EphemeralPostgres
    database: str
    password: str = field(default_factory=token_hex, repr=False)

    def url(self, role: str) -> str:
        return f"postgresql+psycopg://{role}:{self.password}@127.0.0.1:{self.server.port}/{self.database}"

    def make(self, *others: str) -> None:
        """Make the roles, which may be repeated, and give them and others their password."""
        self.run("roles.sql")
        for role in (*LEDGER_ROLES, *others):
            self.execute(f"ALTER ROLE {role} PASSWORD '{self.password}'")

    def run(self, script: str) -> None:
        """As superuser, what a file of deploy/postgres says."""
        self.execute((SCRIPTS / script).read_text("utf-8"))

    def execute(self, statement: str, *values: str) -> None:
        conninfo = self.server.url(self.database).replace("+psycopg", "")
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute(statement.encode(), values or None)
