"""What a person does in Dagster's UI, done in a real browser: look at the graph, launch a day, read plots, retry."""

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from scraper_pipeline.definitions import defs
from scraper_pipeline.ledger import LetterFilter
from scraper_pipeline.local.stack import LocalStack, local_stack
from scraper_pipeline_tests.browser.chromium import Visitor, chromium
from scraper_pipeline_tests.end_to_end.driving import Observer, observe, wait_for

TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
PATHS = ("pages/1", "pages/2", "pages/3", "broken/4")

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("browser")
    targets = folder / "targets.txt"
    environ = {
        "SCRAPER_LEDGER_URL": f"sqlite:///{folder / 'ledger.db'}",
        "SCRAPER_TARGETS": str(targets),
        "SCRAPER_PAGES_URL": str(folder / "pages"),
        "SCRAPER_START_DATE": TODAY,
    }
    with local_stack(folder, environ, sandbox_options=("--max-delay", "0.5")) as stack:
        targets.write_text("".join(f"{stack.sandbox_url}/site/{path}\n" for path in PATHS))
        yield stack


@pytest.fixture(scope="module")
def observer(stack: LocalStack) -> Iterator[Observer]:
    with observe(stack.ui.url, stack.environ["SCRAPER_LEDGER_URL"], stack.sandbox_url or "") as observer:
        yield observer


@pytest.fixture(scope="module")
def visitor(stack: LocalStack) -> Iterator[Visitor]:
    with chromium() as browser:
        yield Visitor(browser, stack.ui.url)


@pytest.fixture(scope="module")
def launched(visitor: Visitor, observer: Observer) -> Visitor:
    """Today's partition, materialised from the graph's own page by clicks, and settled by the sensors since."""
    visitor.open("/locations/scraper_pipeline/jobs/submit_jobs")
    visitor.click("Materialize all")
    visitor.click("Latest", -1)
    visitor.click("Launch 1 run")
    observer.wait_until_done([TODAY], 180)
    return visitor


def test_the_graph_shows_every_asset_with_its_group(visitor: Visitor) -> None:
    specs = defs.resolve_all_asset_specs()
    groups = ",".join(sorted({f"global@global:{spec.group_name}" for spec in specs}))
    visitor.open(f"/asset-groups?expanded={quote(groups)}")
    visitor.wait_for(*(spec.key.to_user_string() for spec in specs))


def test_a_partition_is_materialised_by_clicks_and_the_plots_show_its_figures(
    launched: Visitor, observer: Observer
) -> None:
    progress = observer.progress(TODAY)
    assert (progress.stored, progress.dead) == (3, 1)
    launched.open("/assets/stored_results?view=overview")
    launched.wait_for("Latest materialization", "latency_p95_seconds", "pages_paid")
    launched.click("[Show Markdown]")
    wait_for(lambda: launched.count("img[src^='data:image/svg+xml']") == 1, 30, "the picture")
    launched.open("/assets/stored_results?view=overview")
    launched.click("Plots")
    launched.wait_for("latency_p95_seconds", "pages_paid", "stored")
    wait_for(lambda: launched.count("canvas") >= 3, 30, "the plots")


def test_a_dead_letter_is_retried_from_the_launchpad(launched: Visitor, observer: Observer) -> None:
    [letter] = observer.ledger.letters.ids(LetterFilter())
    launched.open("/locations/scraper_pipeline/jobs/retry_dead_letters/playground")
    launched.write_config(f"ops:\n  retry_chosen_letters:\n    config:\n      ids: [{letter}]\n")
    launched.wait_for("No errors")
    launched.click("Launch Run")
    wait_for(lambda: len(_attempts(observer)) == 2, 120, "a second attempt")
    observer.wait_until_done([TODAY], 180)
    assert observer.posts() == len(PATHS) + 1
    assert observer.audit() == []


def _attempts(observer: Observer) -> list[str]:
    with observer.ledger.engine.connect() as connection:
        query = "SELECT state FROM submissions WHERE url LIKE '%/broken/4' ORDER BY attempt"
        return list(connection.exec_driver_sql(query).scalars())
