"""A bar chart as SVG: a group of bars for each work. The scale is logarithmic, since a large table costs some peers
hundreds of times more.
"""

import html
import math

WIDTH, LEFT, RIGHT, TOP = 860, 170, 60, 60
BAR, GAP = 13, 14
COLOURS = ("#0b5fff", "#5b8c5a", "#b8553a", "#7a5ea8", "#c08a1e", "#4f9aa8", "#8a8a8a")

Groups = list[tuple[str, list[float | None]]]


def bars(groups: Groups, names: list[str], title: str) -> str:
    values = [value for _, group in groups for value in group if value]
    least, most = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - least) / max(1, most - least) * (WIDTH - LEFT - RIGHT)

    height = TOP + sum(len(group) * BAR + GAP for _, group in groups) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="20" font-size="14">{html.escape(title)} (logarithmic)</text>',
    ]
    for number, name in enumerate(names):
        at = LEFT + number * (WIDTH - LEFT - RIGHT) / len(names)
        parts.append(f'<rect x="{at:.0f}" y="32" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>')
        parts.append(f'<text x="{at + 14:.0f}" y="41">{html.escape(name)}</text>')
    for power in range(least, most + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP - 8}" x2="{at:.1f}" y2="{height - 24}" stroke="#dddddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle">{10.0**power:g}</text>')
    y = TOP
    for label, group in groups:
        parts.append(f'<text x="{LEFT - 8}" y="{y + len(group) * BAR / 2 + 4:.1f}" text-anchor="end">{html.escape(label)}</text>')
        for number, value in enumerate(group):
            if value:
                end = x(value)
                size = f'width="{max(1.0, end - LEFT):.1f}" height="{BAR - 2}"'
                parts.append(f'<rect x="{LEFT}" y="{y}" {size} fill="{COLOURS[number % len(COLOURS)]}"/>')
                parts.append(f'<text x="{end + 4:.1f}" y="{y + BAR - 4}" fill="#333333">{value:,.1f}</text>')
            y += BAR
        y += GAP
    return "\n".join([*parts, "</svg>", ""])
