"""Listings of code for the site's pages, full of the characters that markup trips over."""

LISTINGS: tuple[tuple[str, str], ...] = (
    (
        "python",
        '''def tide_height(hour: float, amplitude: float = {a}.{b}) -> float:
    """Metres above chart datum; `hour` counts from midnight."""
    if not 0 <= hour < 24:
        raise ValueError(f"no such hour: {{hour!r}}")
    return amplitude * math.cos(2 * math.pi * (hour - {c}) / 12.42)
''',
    ),
    (
        "sql",
        """SELECT place, max(height) AS highest
  FROM tides
 WHERE height > {a}.{b} AND noted_on <> '2026-02-{c:02d}'
 GROUP BY place
HAVING count(*) >= {b} -- & nothing less
 ORDER BY highest DESC;
""",
    ),
    (
        "javascript",
        """const loud = gulls.filter((gull) => gull.volume > {a} && !gull.asleep);
console.log(`${{loud.length}} of ${{gulls.length}} <awake> at {c}:0{b}`);
""",
    ),
    (
        "rust",
        """fn first_light<'a>(lamps: &'a [Lamp]) -> Option<&'a Lamp> {{
    lamps.iter().filter(|lamp| lamp.range_km >= {a}{b}).min_by_key(|lamp| lamp.lit_at)
}} // `None` || Some(&lamp)
""",
    ),
    (
        "bash",
        """#!/bin/sh
# Every gauge but the broken one | newest first
for gauge in $(ls /srv/gauges | grep -v 'gauge-{c}$'); do
    tail -n {a} "/srv/gauges/$gauge" 2>/dev/null >> "$HOME/tides.txt" && echo "ok: $gauge"
done
""",
    ),
    (
        "html",
        """<figure class="lamp lamp-{c}">
  <img src="lamp.svg" alt="A lamp &amp; its keeper">
  <figcaption>Range: {a}{b} km &lt; horizon</figcaption>
</figure>
""",
    ),
)
