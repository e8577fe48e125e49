"""The answer to a query is a list: read a few rows at a time, never written to, and silent about its password."""

from datetime import date
from itertools import islice
from pathlib import Path

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from scraper_pipeline.ledger import Target
from scraper_pipeline.target_lists import Duplicate, Rejected, TargetList, TargetListError
from scraper_pipeline.target_lists.queries import Query

DAY = date(2026, 1, 31)
PRODUCTS = """
    SELECT page AS "URL", is_rendered AS render_js, 'html|markdown' AS formats, wait AS wait_timeout, shop, changed
    FROM products WHERE changed <= :date ORDER BY id;
"""


@pytest.fixture
def products(ledger_url: str) -> str:
    """A database with a table of products."""
    engine = sa.create_engine(ledger_url)
    table = sa.Table(
        "products",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("page", sa.Text),
        sa.Column("is_rendered", sa.Boolean),
        sa.Column("wait", sa.Integer),
        sa.Column("shop", sa.Text),
        sa.Column("changed", sa.Date),
    )
    names = ("page", "is_rendered", "wait", "shop", "changed")
    rows = [
        ("https://a.example/1", True, 5000, "north", date(2026, 1, 30)),
        ("https://a.example/2", None, None, None, date(2026, 1, 31)),
        ("https://a.example/later", None, None, None, date(2026, 2, 1)),
        (None, None, None, "north", date(2026, 1, 1)),
        ("https://a.example/2", False, None, "south", date(2026, 1, 31)),
    ]
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [dict(zip(names, row, strict=True)) for row in rows])
    engine.dispose()
    return ledger_url


def query(text: str, database: str, folder: Path = Path()) -> Query:
    return Query(text, SecretStr(database), folder)


def fault_of(text: str, database: str) -> str:
    with pytest.raises(TargetListError) as caught:
        list(query(text, database).rows(DAY))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_columns_mean_what_they_mean_in_a_csv_and_the_day_is_bound(products: str) -> None:
    one = TargetList(query(PRODUCTS, products))
    first, second, *rest = one.read(DAY)
    assert isinstance(first, Target)
    assert (first.url, first.labels) == ("https://a.example/1", {"shop": "north", "changed": "2026-01-30"})
    assert first.options == {"formats": ["markdown", "html"], "render_js": True, "wait_timeout": 5000}
    assert isinstance(second, Target)
    assert rest == [Rejected(3, "the row has no URL"), Duplicate(4, 2)]


def test_a_cast_of_the_day_is_no_other_parameter(products: str) -> None:
    text = "SELECT page AS url, CAST(:date AS TEXT) AS day, '%H:%M' AS form FROM products WHERE id = 1"
    if products.startswith("postgresql"):
        text = text.replace("CAST(:date AS TEXT)", ":date::text")
    ((_, row),) = query(text, products).rows(DAY)
    assert row == {"url": "https://a.example/1", "day": "2026-01-31", "form": "%H:%M"}


def test_nothing_is_written_whatever_the_query_asks_for(products: str) -> None:
    said = fault_of("DELETE FROM products RETURNING page AS url", products)
    assert said.startswith("a query on ")
    assert len(list(query("SELECT page AS url FROM products", products).rows(DAY))) == 5


def test_rows_come_a_few_at_a_time(products: str) -> None:
    """All of them would be more than a machine has memory for."""
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) "
        "SELECT 'https://a.example/' || i AS url FROM n"
    )
    rows = query(endless, products).rows(DAY)
    assert [number for number, _ in islice(rows, 2500)] == list(range(1, 2501))
    rows.close()  # type: ignore[attr-defined]


def test_what_the_database_says_is_told_in_a_line(products: str) -> None:
    assert "nowhere" in fault_of("SELECT url FROM nowhere", products)
    assert "has no column `url`" in fault_of("SELECT page FROM products", products)
    assert "several columns named url" in fault_of(
        'SELECT page AS url, page AS "URL" FROM products', products
    )
    said = fault_of("SELECT page AS url FROM products WHERE shop = :shop", products)
    assert "binds :shop, and the one parameter that there is is :date" in said


def test_the_databases_url_may_come_from_the_environment(
    products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = query(PRODUCTS, "${PRODUCTS_URL}")
    assert one.shown(DAY) == "a query on ${PRODUCTS_URL}"
    with pytest.raises(TargetListError, match="PRODUCTS_URL is not set"):
        list(one.rows(DAY))
    monkeypatch.setenv("PRODUCTS_URL", products.replace("+psycopg", ""))
    assert len(list(one.rows(DAY))) == 4
    monkeypatch.setenv("PRODUCTS_URL", "hunter2")
    with pytest.raises(TargetListError, match="`database` takes a SQLAlchemy URL") as caught:
        list(one.rows(DAY))
    assert "hunter2" not in str(caught.value)


def test_a_sqlite_file_is_below_the_lists_folder_and_is_never_made(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE pages AS SELECT 'https://a.example' AS url")
    engine.dispose()
    assert len(list(query("SELECT url FROM pages", "sqlite:///shop.db", tmp_path).rows(DAY))) == 1
    with pytest.raises(TargetListError, match=rf"there is no SQLite file {tmp_path}/gone\.db"):
        list(query("SELECT url FROM pages", "sqlite:///gone.db", tmp_path).rows(DAY))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shop.db"]


@pytest.mark.parametrize(
    ("database", "said"),
    [
        ("oracle+nothing://me:hunter2@host/db", "SQLAlchemy knows no oracle+nothing"),
        ("mysql+pymysql://me:hunter2@host/db", "its driver is not installed: install pymysql"),
        ("postgresql://me:hunter2@127.0.0.1:9/db?sslmode=hunter2", "invalid sslmode value"),
        ("postgresql+psycopg2://me:hunter2@127.0.0.1:9/db", "onnection refused"),
    ],
)
def test_a_database_that_cannot_be_opened_is_named_without_its_password(database: str, said: str) -> None:
    fault = fault_of("SELECT 1 AS url", database)
    assert said in fault
    assert "me:***@" in fault
    one = query("SELECT 1 AS url", database)
    assert "hunter2" not in fault + one.shown(DAY) + repr(one)
