"""Reads the files that callgrind writes: what each function costs by itself, and who calls it."""

import collections
import pathlib
import re


class Profile:
    """Instructions of one dump. (callgrind_annotate takes calls that were open at the start of a dump for cost.)"""

    def __init__(self, dump: pathlib.Path) -> None:
        # Names are written once, as `(number) name`, and then as `(number)`.
        self._names: dict[str, str] = {}
        self.own: collections.Counter[str] = collections.Counter()
        # By callee, then by caller: how often, and at what inclusive cost.
        self.calls: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.called_cost: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self._read(dump.read_text())

    @property
    def total(self) -> int:
        return sum(self.own.values())

    def _name(self, text: str) -> str:
        found = re.match(r"\((\d+)\)(?: (.*))?", text)
        if not found:
            return text
        if found[2]:
            self._names[found[1]] = found[2]
        return self._names.get(found[1], text)

    def _read(self, text: str) -> None:
        function = callee = ""
        count = 0
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "fn":
                function = self._name(value)
            elif key == "cfn":
                callee = self._name(value)
            elif key == "calls":
                count = int(value.split()[0])
                callee = callee or function
            elif line[:1].isdigit() or line[:1] in {"+", "-", "*"}:
                cost = int(line.split()[1]) if len(line.split()) > 1 else 0
                if callee and count >= 0:
                    self.calls[callee][function] += count
                    self.called_cost[callee][function] += cost
                    callee, count = "", -1
                else:
                    self.own[function] += cost


def table(profile: Profile, requests: int, lines: int = 40) -> str:
    """The functions that cost most by themselves, a request."""
    rows = [f"{'share':>6} {'instructions':>12} {'calls':>7}  function"]
    for name, cost in profile.own.most_common(lines):
        calls = sum(profile.calls[name].values()) / requests
        rows.append(f"{cost / profile.total:6.1%} {cost / requests:12,.0f} {calls:7.1f}  {name}")
    return "\n".join(rows)
