"""Makes the pictures in docs/images of a day that the demo has just run: `make screenshots`.

Needs Chromium and its driver on the PATH (on Debian: apt-get install chromium chromium-driver).
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

from scraper_pipeline.definitions import defs
from scraper_pipeline.local.demo import DemoSummary, run_demo
from scraper_pipeline.local.stack import LocalStack
from scraper_pipeline_tests.browser.chromium import chromium

PAGES = 100
IMAGES = Path(__file__).resolve().parent / "images"
GROUPS = sorted({f"global@global:{spec.group_name}" for spec in defs.resolve_all_asset_specs()})


@dataclass(frozen=True)
class Picture:
    """A page of the UI, the buttons to be clicked on it, and the texts that have to be there before it is taken."""

    path: str
    texts: tuple[str, ...]
    clicks: tuple[str, ...] = ()


PICTURES = {
    "asset-graph": Picture(
        f"/asset-groups?expanded={quote(','.join(GROUPS))}",
        ("stored_results", "spend", "100% filled", "Passed"),
    ),
    "stored-results": Picture("/assets/stored_results", ("Latest materialization", "latency_p95_seconds")),
    "launch-submit-jobs": Picture(
        "/locations/scraper_pipeline/jobs/submit_jobs",
        ("Partition selection", "Launch 1 run"),
        clicks=("Materialize all", "Latest"),
    ),
}
SETTLE_SECONDS = 3.0  # for fonts and animations, of which no text tells
PATIENCE_SECONDS = 60.0
_STILL_MOVING = (ElementClickInterceptedException, StaleElementReferenceException)


def take_pictures(stack: LocalStack, summary: DemoSummary) -> None:
    """Open each page, wait until it shows what it should, and save it. Raises TimeoutException if it never does."""
    with chromium(
        1920, 1080
    ) as browser:  # as wide as the graph, which shows no figures when it is made smaller
        for name, picture in PICTURES.items():
            take(browser, stack.ui.url, picture, IMAGES / f"{name}.png")
            print(f"docs/images/{name}.png: {(IMAGES / f'{name}.png').stat().st_size // 1024} kB")


def take(browser: WebDriver, url: str, picture: Picture, path: Path) -> None:
    browser.get(url + picture.path)
    wait = WebDriverWait(browser, PATIENCE_SECONDS, ignored_exceptions=_STILL_MOVING)
    for text in picture.clicks:
        wait.until(_clicks(text), f"{picture.path} has no button {text}")
    wait.until(_shows(picture.texts), f"{picture.path} does not show {picture.texts}")
    time.sleep(SETTLE_SECONDS)
    browser.save_screenshot(str(path))


def _clicks(text: str) -> Callable[[WebDriver], bool]:
    def click(browser: WebDriver) -> bool:
        for button in browser.find_elements(By.TAG_NAME, "button"):
            if button.text.strip().startswith(text) and button.is_enabled():
                button.click()
                return True
        return False

    return click


def _shows(texts: Sequence[str]) -> Callable[[WebDriver], bool]:
    return lambda browser: all(text in browser.find_element(By.TAG_NAME, "body").text for text in texts)


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    # A first day that is today: the graph tells of one day, which is done.
    os.environ["SCRAPER_START_DATE"] = datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as folder:
        summary = run_demo(
            Path(folder) / "demo",
            PAGES,
            timeout=300,
            show=print,
            advance=lambda progress: None,
            hold=take_pictures,
        )
    return 0 if summary.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
