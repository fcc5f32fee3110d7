"""What one server makes of each spelling, asked directly: the rows of the table in docs/readings.md."""
from targets import described

# Routes beside the contract's; no contract owns these paths, so no gateway forwards one.
ROUTES = [
    described("/readings/{name}", "probe name") | {"profile": "(probe)"},
    described("/readings/{name}/part", "probe part") | {"profile": "(probe)"},
]

# What is sent, what it asks, and the words for: the route of a name, the route of a part, a redirect.
PROBES = [
    ("/readings/a%2Fpart", "`%2F`", {"name": "part of the name", "part": "**a separator**"}),
    ("/readings/a%252Fpart", "`%252F`", {"name": "part of the name", "part": "**a separator**"}),
    ("/readings//a", "`//`", {"name": "**merged**", "part": "an empty segment"}),
    ("/readings/a/part;x=1", "`;x=1` behind a segment", {"part": "**cut off**"}),
    ("/readings/a;/part", "`;` inside", {"part": "no change of the route"}),
    ("/readings/a\\part", "`\\`", {"name": "part of the name", "part": "**a separator**"}),
    ("/readings/a%5Cpart", "`%5C`", {"name": "part of the name", "part": "**a separator**"}),
    ("/readings/x/../a", "`/../`", {"name": "**resolved**"}),
    ("/readings/x/%2e%2e/a", "`/%2e%2e/`", {"name": "**resolved**"}),
    ("/readings/x/..;y/a", "`/..;y/`", {"name": "**resolved**"}),
    ("/readings/./a", "`/./`", {"name": "**resolved**"}),
    ("/READINGS/a", "capitals", {"name": "**the same route**"}),
    ("/%72eadings/a", "an escaped letter", {"name": "**decoded**"}),
    ("/readings/a/part/", "a slash at the end", {"part": "**dropped**"}),
    ("/readings/a/part%3Fx", "`%3F`", {"part": "**ends the path**"}),
    ("/readings/a/part#x", "`#`", {"part": "**cut off**"}),
    ("/readings/a%00b/part", "`%00`", {"part": "part of the name"}),
    ("/readings/%ff", "`%FF`, no UTF-8", {"name": "part of the name"}),
    ("/readings/%zz", "`%zz`, no escape", {"name": "part of the name"}),
]


def ask(client):
    """The cell of each probe for one server."""
    cells = []
    for target, _, words in PROBES:
        status, fields = client.get(target.encode(), 0)
        route = fields.get("x-route", "").removeprefix("probe ")
        if route:
            cells.append(words.get(route, f"route `{route}`"))
        elif status is None:
            cells.append("closes")
        elif 300 <= status < 400:
            cells.append(f"**{status} redirect**")
        else:
            cells.append(str(status))
    return cells
