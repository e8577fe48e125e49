"""The lists of targets that the site offers: mostly ordinary pages, with a known share of troublesome ones."""

_PERIOD = 200
_TROUBLE = {
    3: "broken",
    6: "flaky",
    9: "slow",
    12: "cancelled",
    15: "empty",
    18: "large",
    103: "broken",
    106: "flaky",
}
"""Which of every two hundred targets are troublesome, by their place; twenty already hold one of each."""

_ONCE = {"empty", "large"}


def site_targets(base_url: str, pages: int) -> list[str]:
    """That many different URLs on the site that is served at `base_url`.

    Of every two hundred, two are broken, two flaky, one slow, one cancelled, one empty and one large; from twenty on,
    there is one of each.
    """
    base = base_url.rstrip("/")
    return [f"{base}/site/{_path(number)}" for number in range(1, pages + 1)]


def _path(number: int) -> str:
    kind = _TROUBLE.get(number % _PERIOD, "pages")
    if kind not in _ONCE:
        return f"{kind}/{number}"
    return kind if number < _PERIOD else f"{kind}?copy={number // _PERIOD}"
