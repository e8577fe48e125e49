"""Rules, dashboard and page speak of metrics that there are, and of all rules."""

import json
import re

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from scraper_pipeline.exporter import LedgerCollector
from scraper_pipeline.ledger import Delivery, Ledger
from scraper_pipeline.receiver.metrics import ReceiverMetrics
from scraper_pipeline.settings import project_folder

DEPLOY, PAGE = project_folder() / "deploy", project_folder() / "docs" / "observability.md"
NAME = re.compile(r"\bscraper_[a-z_]+")
RULES = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]


@pytest.fixture
def told(sqlite_url: str) -> set[str]:
    """The names of all metrics, of a ledger that has had a sweep."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.sweeps.end(ledger.sweeps.begin(), {})
        names = {metric.name for metric in LedgerCollector(ledger).collect()}
    exposed = text_string_to_metric_families(ReceiverMetrics().exposition().decode())
    return names | _families(" ".join(family.name for family in exposed))


def _families(text: str) -> set[str]:
    return {re.sub("_(total|bucket|sum|count|created)$", "", name) for name in NAME.findall(text)}


def test_rules_and_panels_ask_for_metrics_that_there_are(told: set[str]) -> None:
    panels = json.loads((DEPLOY / "grafana" / "scraper-pipeline.json").read_text("utf-8"))["panels"]
    asked = [rule["expr"] for rule in RULES]
    asked += [target["expr"] for panel in panels for target in panel["targets"]]
    assert _families(" ".join(asked)) - told == set()
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_page_has_every_metric_and_every_rule_and_no_other(told: set[str]) -> None:
    page = PAGE.read_text("utf-8")
    assert _families(page) == told
    assert set(re.findall(r"^\| (Scraper\w+) \|", page, re.M)) == {rule["alert"] for rule in RULES}
    assert all({"severity"} == rule["labels"].keys() for rule in RULES)


def test_no_metric_has_a_label_that_prometheus_gives_to_every_one(sqlite_url: str) -> None:
    """It would be renamed at each scrape, and no rule would find it by its name."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.inbox.commit([Delivery("a job")])
        metrics = list(LedgerCollector(ledger).collect())
    exposed = text_string_to_metric_families(ReceiverMetrics().exposition().decode())
    labels = {
        label for metric in [*metrics, *exposed] for sample in metric.samples for label in sample.labels
    }
    assert "of" in labels
    assert labels & {"job", "instance"} == set()
