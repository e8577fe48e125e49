"""A real browser without a screen, and what a person does in it. Needs Chromium and its driver on the PATH."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

PATIENCE_SECONDS = 60.0


@contextmanager
def chromium(width: int = 1500, height: int = 800) -> Iterator[WebDriver]:
    """A headless browser with an empty profile, which asks nothing of any other machine."""
    with tempfile.TemporaryDirectory() as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        for argument in (
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={profile}",
        ):  # fmt: skip
            options.add_argument(argument)
        driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
            )
            yield driver
        finally:
            driver.quit()


@dataclass
class Visitor:
    """Opens pages of one site, reads what is to be seen, and clicks."""

    browser: WebDriver
    site: str

    def open(self, path: str) -> None:
        self.browser.get(self.site + path)

    def text(self) -> str:
        return self.browser.find_element(By.TAG_NAME, "body").text

    def wait_for(self, *texts: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Return once the page shows all of these texts."""
        end = time.monotonic() + seconds
        while missing := [text for text in texts if text not in self._text_or_nothing()]:
            assert time.monotonic() < end, (
                f"{self.browser.current_url} does not show {missing}: {self.text()}"
            )
            time.sleep(0.3)

    def click(self, button: str, place: int = 0) -> None:
        """Click the button or link whose text begins so, the first one from the front or, with -1, from the back."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                found = self.browser.find_elements(
                    By.XPATH, f"//*[self::button or self::a][starts-with(normalize-space(.), '{button}')]"
                )
                [one for one in found if one.is_displayed() and one.is_enabled()][place].click()
            except (IndexError, WebDriverException):  # not there yet, or drawn anew at this moment
                assert time.monotonic() < end, (
                    f"no button {button!r} on {self.browser.current_url}: {self.text()}"
                )
                time.sleep(0.3)
            else:
                return

    def count(self, css: str) -> int:
        return len(self.browser.find_elements(By.CSS_SELECTOR, css))

    def write_config(self, yaml: str) -> None:
        """Replace what stands in the launchpad's editor."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.count(".CodeMirror"):
            assert time.monotonic() < end, f"no editor on {self.browser.current_url}: {self.text()}"
            time.sleep(0.3)
        script = "document.querySelector('.CodeMirror').CodeMirror.setValue(arguments[0])"
        self.browser.execute_script(script, yaml)

    def _text_or_nothing(self) -> str:
        try:
            return self.text()
        except WebDriverException:  # the page is being drawn anew
            return ""
