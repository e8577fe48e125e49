"""Whether the webhooks' secrets are kept as they must be; none of them is ever shown."""

import stat
from collections import defaultdict
from datetime import datetime

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.settings import Settings
from scraper_pipeline.webhook_secrets import SecretsFile, WebhookSecret, WebhookSecretsError

_WEBHOOKS = Subject("webhook secrets")
_REGISTER = "Run `scraper-pipeline webhooks register`, which gives a webhook a new secret."


def check_webhook_secrets(settings: Settings, now: datetime) -> list[Finding]:
    """What can be said of the secrets that a receiver would accept at a moment."""
    path, found = settings.webhook_secrets_file, []
    if settings.webhook_secret is not None:
        found.append(
            _WEBHOOKS.warning(
                "GEONODE_WEBHOOK_SECRET is set: it is accepted for ever, beside those of the file.",
                "Unset it once the webhooks are registered by `scraper-pipeline webhooks register`.",
            )
        )
    if not path.exists():
        if not settings.poll:
            found.append(
                _WEBHOOKS.warning(
                    "There is no file of them, and SCRAPER_POLL is false: news comes with the sweep alone.",
                    "Run `scraper-pipeline webhooks register`, or unset SCRAPER_POLL.",
                )
            )
        return found or [_WEBHOOKS.ok("There is no file of them. Without webhooks, polling brings the news.")]
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o007:
        found.append(
            _WEBHOOKS.problem(f"{path} is open to everybody on this machine.", f"Run `chmod 600 {path}`.")
        )
    elif mode & 0o070:
        found.append(
            _WEBHOOKS.warning(
                f"{path} is open to its group.", f"Unless that is meant so, run `chmod 600 {path}`."
            )
        )
    try:
        return [*_judge(SecretsFile(path).read(), now), *found]
    except WebhookSecretsError as error:
        return [_WEBHOOKS.problem(str(error), _REGISTER), *found]


def _judge(entries: tuple[WebhookSecret, ...], now: datetime) -> list[Finding]:
    by_webhook: dict[str, list[WebhookSecret]] = defaultdict(list)
    for entry in entries:
        by_webhook[entry.webhook_id].append(entry)
    found = []
    for webhook_id, own in by_webhook.items():
        # The one that was added last is the one that the service signs with.
        newest = own[-1]
        if newest.expires_at is None:
            continue
        named = f"The newest secret of webhook {webhook_id} ({newest.event_type})"
        if newest.is_valid(now):
            found.append(
                _WEBHOOKS.warning(f"{named} expires at {newest.expires_at:%Y-%m-%d %H:%M} UTC.", _REGISTER)
            )
        else:
            found.append(_WEBHOOKS.problem(f"{named} has expired: its deliveries are refused.", _REGISTER))
    if found:
        return found
    valid = sum(entry.is_valid(now) for entry in entries)
    return [_WEBHOOKS.ok(f"{valid} secrets of {len(by_webhook)} webhooks are valid.")]
