"""Where alerts go: one request each, with a short time-out, and no word of the address in any error."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from scraper_pipeline.alerts.messages import Alert
from scraper_pipeline.settings import Settings

POST_SECONDS = 5.0


class AlertNotSent(Exception):
    """An alert did not arrive; the message says why, and which variable to look at."""


@dataclass(frozen=True)
class AlertChannel:
    """One receiver of alerts; ``name`` is what its place in the sensor's cursor is kept under."""

    name: str
    variable: str
    url: SecretStr
    body: Callable[[Alert], Mapping[str, Any]] = field(repr=False)

    def post(self, alert: Alert) -> None:
        """Send the alert. Raises AlertNotSent unless it was acknowledged with 2xx."""
        logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes whole URLs, a line a request
        try:
            with httpx.stream(
                "POST",
                self.url.get_secret_value(),
                json=self.body(alert),
                headers={"User-Agent": "scraper-pipeline"},
                timeout=POST_SECONDS,
                follow_redirects=False,
            ) as answer:  # whose body nobody needs
                if answer.is_success:
                    return
                reason = f"the answer was {answer.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = type(error).__name__
        # Raised out here and not chained: the other error holds the request, and that its address.
        raise AlertNotSent(f"An alert was not taken ({reason}); check {self.variable}.")


def configured_channels(settings: Settings) -> Iterator[AlertChannel]:
    """The receivers that are set; there may be none."""
    if settings.alert_url is not None:
        yield AlertChannel("webhook", "SCRAPER_ALERT_URL", settings.alert_url, Alert.to_json)
    if settings.slack_webhook_url is not None:
        yield AlertChannel("slack", "SCRAPER_SLACK_WEBHOOK_URL", settings.slack_webhook_url, Alert.to_slack)
