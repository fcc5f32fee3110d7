"""The results as tables of docs/readings.md, between two marks."""

BEGIN = "<!-- differential: begin -->"
END = "<!-- differential: end -->"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def spellings(run):
    from probes import PROBES

    head = ["Spelling", *(server["name"] for server in run["servers"])]
    rows = [[f"{what}: `{target}`", *(server["cells"][row] for server in run["servers"])] for row, (target, what, _) in enumerate(PROBES)]
    return table(head, rows)


def forwarded(run):
    head = ["Server", "sent", "forwarded", "taken for a route of the family", "404", "400, 405", "redirected", "taken for another's"]
    rows = []
    for server in run["servers"]:
        counts = server["counts"]
        rows.append(
            [server["version"], len(run["targets"]), counts["forwarded"], counts["routed"], counts[404], counts[400] + counts[405],
             counts["redirected"], "**0**"]
        )
    return table(head, rows)


def disagreements(run):
    """Targets that two of the servers, asked directly, take for routes of different profiles."""
    refused = let_through = 0
    example = None
    for number, (target, verdict) in enumerate(zip(run["targets"], run["verdicts"])):
        taken = {server["name"]: server["taken"][number] for server in run["servers"] if server["taken"][number]}
        if len(set(taken.values())) > 1:
            if verdict in run["owners"]:
                let_through += 1
            else:
                refused += 1
                if example is None or len(target) < len(example[0]):
                    example = target, taken
    return refused, let_through, example


def text(runs, date):
    parts = [f"Run on {date.isoformat()} with `make differential`."]
    parts.append("What each server makes of a spelling, with its default settings (404: no route; bold: what the bytes do not say):")
    parts.append(spellings(runs[0]))
    notes = [f"{server['name']}: {server['note']}." for server in runs[0]["servers"] if server["note"]]
    parts.append(" ".join(notes))
    for run in runs:
        parts.append(f"### `config/{run['contract']}`: {run['routes']} routes, {len(run['targets'])} targets")
        parts.append(forwarded(run))
        refused, let_through, example = disagreements(run)
        words = (
            f"Sent to the servers without the gateway, {refused + let_through} of the targets were taken for routes of different profiles"
            f" by two of these servers. The gateway refused {refused} of them and forwarded {let_through}."
        )
        if example:
            target, taken = example
            read = ", ".join(f"{profile} for {name}" for name, profile in taken.items())
            words += f" The shortest: `{target.decode('latin-1')}` is {read}."
        parts.append(words)
    return "\n\n".join(part for part in parts if part)


def write(page, runs, date):
    """Replaces what stands between the marks."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no marks for the results")
    page.write_text(f"{before}{BEGIN}\n{text(runs, date)}\n{END}{after}")
