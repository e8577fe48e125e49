"""Whether the webhooks that were registered are there, and their deliveries are taken."""

from collections.abc import Sequence

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.ledger import DeliveryFigures, RegisteredWebhook
from scraper_pipeline.ledger.condition import WebhookRows
from scraper_pipeline.scraper_api import ScraperClient, ScraperError

_WEBHOOKS = Subject("webhooks")
_SECONDS = 10.0
_TOLERATED_SHARE = 0.1
_ADVICE = {
    "401": "Its receivers lack the secrets of the last registration or rotation: see that they read the same file, and "
    "that what gives them each new one is at work (`systemctl status scraper-webhook-secrets.path`).",
    "503": "Its receivers can not commit in time: look at the database, and at their log.",
}
_OTHERWISE = "`scraper-pipeline webhooks deliveries` shows them, and docs/webhooks.md has a runbook."


async def check_webhooks(client: ScraperClient, rows: WebhookRows) -> list[Finding]:
    """What the service has of an account's webhooks, and what its log said in the last hour of their deliveries."""
    try:
        listed = {one.webhook_id: one.is_active for one in await client.list_webhooks(budget=_SECONDS)}
    except ScraperError as error:
        return [_WEBHOOKS.warning(f"{error}.", "Nothing is lost: polling brings the news. Try again later.")]
    found = [*_judge_registered(rows.webhooks, listed), *judge_deliveries(rows.deliveries)]
    taken = rows.deliveries.acknowledged
    return found or [
        _WEBHOOKS.ok(f"{len(rows.webhooks)} are registered; in the last hour {taken} deliveries were taken.")
    ]


def _judge_registered(ours: Sequence[RegisteredWebhook], listed: dict[str, bool]) -> list[Finding]:
    found = []
    for one in ours:
        if one.webhook_id not in listed:
            said = f"The service no longer has the webhook {one.webhook_id} ({one.event_type})."
            advice = f"Run `scraper-pipeline webhooks remove {one.webhook_id}`, and `webhooks register` for a new one."
            found.append(_WEBHOOKS.problem(said, advice))
    if off := [one.event_type for one in ours if one.is_active and not listed.get(one.webhook_id, True)]:
        said = f"The service has switched off the webhooks for {', '.join(off)}."
        found.append(
            _WEBHOOKS.problem(said, "Run `scraper-pipeline webhooks register`, which switches them on again.")
        )
    return found


def judge_deliveries(figures: DeliveryFigures) -> list[Finding]:
    """Findings about deliveries of which many, or all, were not taken."""
    refused = sum(figures.refused.values())
    if refused <= _TOLERATED_SHARE * (refused + figures.acknowledged):
        return []
    most = max(figures.refused, key=lambda kind: figures.refused[kind])
    by_kind = ", ".join(f"{count} of {kind}" for kind, count in sorted(figures.refused.items()))
    advice = _ADVICE.get(most, _OTHERWISE)
    if figures.acknowledged:
        of = refused + figures.acknowledged
        return [
            _WEBHOOKS.warning(
                f"In the last hour {refused} of {of} deliveries were refused: {by_kind}.", advice
            )
        ]
    return [_WEBHOOKS.problem(f"In the last hour no delivery was taken: {by_kind}.", advice)]
