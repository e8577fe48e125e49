"""Two small pictures for the metadata of a day: how long jobs took, and how the day went on. SVG in Markdown."""

from base64 import b64encode
from bisect import bisect_left
from collections.abc import Sequence

import dagster as dg

_WIDTH, _HEIGHT, _MARGIN = 460, 150, 24
_BOUNDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)  # seconds
_LABELS = ("≤1s", "≤2s", "≤5s", "≤10s", "≤20s", "≤30s", "≤1m", "≤2m", "≤5m", "≤10m", "≤30m", "≤1h", "more")
_POINTS = 60
_INK, _LINE = "#4f43dd", "#8a8f98"


def latency_picture(latencies: Sequence[float]) -> dg.MarkdownMetadataValue:
    """How many pages took how long from acceptance to storage; ``latencies`` are in seconds."""
    if not latencies:
        return dg.MetadataValue.md("*no pages*")
    counts = [0] * (len(_BOUNDS) + 1)
    for seconds in latencies:
        counts[bisect_left(_BOUNDS, seconds)] += 1
    width, tallest = (_WIDTH - 2 * _MARGIN) / len(counts), max(counts)
    bars = []
    for place, count in enumerate(counts):
        left, height = _MARGIN + place * width, (_HEIGHT - 2 * _MARGIN) * count / tallest
        label = _LABELS[place]
        bars.append(
            f'<rect x="{left + 2:.1f}" y="{_HEIGHT - _MARGIN - height:.1f}" width="{width - 4:.1f}" '
            f'height="{height:.1f}" fill="{_INK}"><title>{count}</title></rect>'
            + _text(left + width / 2, _HEIGHT - 8, label)
        )
    return _markdown(
        "".join(bars) + _text(_WIDTH / 2, 14, f"{len(latencies)} pages by seconds to stored"),
        "How long pages took from acceptance to storage",
    )


def progress_picture(seconds: Sequence[float], targets: int) -> dg.MarkdownMetadataValue:
    """How many pages were stored how long after the day's first job was accepted, beside the day's targets."""
    if not seconds:
        return dg.MetadataValue.md("*no pages*")
    ordered, most = sorted(seconds), max(targets, len(seconds))
    end = max(ordered[-1], 1.0)
    points = []
    for place in range(_POINTS + 1):
        stored = bisect_left(ordered, end * place / _POINTS + 1e-9)
        x = _MARGIN + (_WIDTH - 2 * _MARGIN) * place / _POINTS
        points.append(f"{x:.1f},{_HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * stored / most:.1f}")
    axis = f'<path d="M{_MARGIN} {_HEIGHT - _MARGIN}H{_WIDTH - _MARGIN}" stroke="{_LINE}" fill="none"/>'
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{_INK}" stroke-width="2"/>'
    caption = f"{len(ordered)} of {targets} targets stored within {_short(end)}"
    return _markdown(axis + line + _text(_WIDTH / 2, 14, caption), "How many pages were stored by when")


def _short(seconds: float) -> str:
    for size, name in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="{_LINE}">{text}</text>'


def _markdown(content: str, alternative: str) -> dg.MarkdownMetadataValue:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" font-size="10">{content}</svg>'
    )
    return dg.MetadataValue.md(
        f"![{alternative}](data:image/svg+xml;base64,{b64encode(svg.encode()).decode()})"
    )
