"""What a run has measured, and the tables that tell it: medians of all rounds, with the least and the most."""

import collections.abc
import dataclasses
import pathlib
import re
import statistics
import typing

import chart
from proxies import PEERS
from works import IDLE_CONNECTIONS, MIB, WORKS

# A peer that uses less of its core than this is not at its limit.
SATURATED = 0.9
# Below it two digits tell too little.
SMALL_RATIO = 0.05
BEGIN, END = "<!-- bench-peers: written by bench/peers/run.py -->", "<!-- bench-peers: end -->"


@dataclasses.dataclass
class Sample:
    """One measurement; latencies are in milliseconds by percentile."""

    peer: str
    work: str
    rules: int
    round: int
    cpu_microseconds: float
    per_second: float
    # Of one core.
    share: float
    latency: dict[str, float]
    load_average: float


@dataclasses.dataclass
class MemorySample:
    """Bytes."""

    peer: str
    round: int
    idle: int
    connection: float
    loaded: int


@dataclasses.dataclass
class Results:
    """A whole run."""

    date: str
    command: str
    machine: str
    versions: dict[str, str]
    seconds: float
    rate: int = 0
    samples: list[Sample] = dataclasses.field(default_factory=list)
    memory: list[MemorySample] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)

    def as_json(self) -> dict[str, typing.Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, typing.Any]) -> "Results":
        samples = [Sample(**sample) for sample in document.pop("samples")]
        memory = [MemorySample(**sample) for sample in document.pop("memory")]
        return cls(**document, samples=samples, memory=memory)

    def replaced_by(self, newer: "Results") -> "Results":
        """These results with the rows of a later run in place of their own. Peers are compared within rows alone."""
        rows = {(sample.work, sample.rules) for sample in newer.samples}
        kept = [sample for sample in self.samples if (sample.work, sample.rules) not in rows]
        return dataclasses.replace(
            newer,
            command=f"{self.command}; {newer.command}",
            versions=self.versions | newer.versions,
            rate=newer.rate or self.rate,
            samples=kept + newer.samples,
            memory=newer.memory or self.memory,
            failures=self.failures + newer.failures,
        )

    @property
    def peers(self) -> list[str]:
        return list(self.versions)

    def of(self, peer: str, work: str, rules: int) -> list[Sample]:
        return [sample for sample in self.samples if (sample.peer, sample.work, sample.rules) == (peer, work, rules)]

    def rows(self, *kinds: str) -> list[tuple[str, int]]:
        """The works of these kinds that were measured, each with its size of table."""
        measured = sorted({(sample.work, sample.rules) for sample in self.samples})
        return [(work, rules) for name in WORKS if WORKS[name].kind in kinds for work, rules in measured if work == name]

    def medians(self, value: collections.abc.Callable[[Sample], float], work: str, rules: int, digits: int = 1) -> list[str]:
        """A cell for each peer."""
        return [spread([value(sample) for sample in self.of(peer, work, rules)], digits) for peer in self.peers]


def spread(values: collections.abc.Sequence[float], digits: int = 1) -> str:
    """The median, with the least and the most."""
    if not values:
        return ""
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def ratios(results: Results, peer: str, other: str, work: str, rules: int) -> list[float]:
    """CPU time of one peer over another's, round by round."""
    others = {sample.round: sample.cpu_microseconds for sample in results.of(other, work, rules)}
    return [sample.cpu_microseconds / others[sample.round] for sample in results.of(peer, work, rules) if others.get(sample.round)]


def ratio(values: collections.abc.Sequence[float]) -> str:
    return spread(values, 2 if not values or max(values) >= SMALL_RATIO else 4)


def page(results: Results) -> str:
    """All of a run as Markdown."""
    averages = [sample.load_average for sample in results.samples]
    load = f"; load average {min(averages):.1f} to {max(averages):.1f}" if averages else ""
    versions = ", ".join(f"{PEERS[name].title} {version}" for name, version in results.versions.items())
    rounds = 1 + max([sample.round for sample in results.samples] + [sample.round for sample in results.memory], default=0)
    parts = [f"{results.date}, {results.machine}{load}. {versions}. {rounds} rounds of {results.seconds:g} s. `{results.command}`"]
    parts += [cpu_table(results), ratio_table(results), throughput_table(results), latency_table(results), memory_table(results)]
    if results.failures:
        parts.append("Not measured:\n\n" + "\n".join(f"- {failure}" for failure in results.failures))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def label(work: str, rules: int) -> str:
    return WORKS[work].title + (f", {rules:,} rules" if WORKS[work].tables else "")


def titles(results: Results) -> list[str]:
    return [PEERS[peer].title for peer in results.peers]


def cpu_table(results: Results) -> str:
    rows = [
        [label(work, rules), *results.medians(lambda sample: sample.cpu_microseconds, work, rules)]
        for work, rules in results.rows("saturation", "cost")
    ]
    text = "CPU time of the proxy (user and system), microseconds a request, message or connection:"
    return f"{text}\n\n{markdown(['', *titles(results)], rows)}" if rows else ""


def ratio_table(results: Results) -> str:
    first, *others = results.peers
    rows = [
        [label(work, rules), *(ratio(ratios(results, first, other, work, rules)) for other in others)]
        for work, rules in results.rows("saturation", "cost")
    ]
    if not rows or not others:
        return ""
    return (
        f"The same of {PEERS[first].title} as a multiple of each other's, round by round; less than 1 is less CPU time:\n\n"
        + markdown(["", *(PEERS[other].title for other in others)], rows)
    )


def throughput_table(results: Results) -> str:
    def cell(samples: list[Sample]) -> str:
        is_limit = not samples or statistics.median(sample.share for sample in samples) >= SATURATED
        return ("" if is_limit else "over ") + spread([sample.per_second for sample in samples], 0)

    rows = [
        [label(work, rules), *(cell(results.of(peer, work, rules)) for peer in results.peers)]
        for work, rules in results.rows("saturation")
    ]
    text = (
        f"Requests a second at saturation, with one core; `over` where the peer used less than {SATURATED:.0%} of it, "
        "so that the load or other work was the limit:"
    )
    return f"{text}\n\n{markdown(['', *titles(results)], rows)}" if rows else ""


def latency_table(results: Results) -> str:
    percentiles = (("p50", "median"), ("p99", "p99"), ("p999", "p99.9"))
    rows = [
        [f"{label(work, rules)}, {title}", *results.medians(lambda sample, key=key: sample.latency[key], work, rules, 2)]  # type: ignore[misc]
        for work, rules in results.rows("rate")
        for key, title in percentiles
    ]
    text = f"Latency in milliseconds at {results.rate:,} requests a second, from when each was due:"
    return f"{text}\n\n{markdown(['', *titles(results)], rows)}" if rows else ""


def memory_table(results: Results) -> str:
    if not results.memory:
        return ""

    def cells(value: collections.abc.Callable[[MemorySample], float], digits: int = 1) -> list[str]:
        return [spread([value(sample) for sample in results.memory if sample.peer == peer], digits) for peer in results.peers]

    rows = [
        ["idle, MiB", *cells(lambda sample: sample.idle / MIB)],
        [f"an idle connection, KiB ({IDLE_CONNECTIONS:,} of them)", *cells(lambda sample: sample.connection / 1024, 2)],
        ["under load, MiB", *cells(lambda sample: sample.loaded / MIB)],
    ]
    return "Resident memory, pages that a peer's processes share counted once:\n\n" + markdown(["", *titles(results)], rows)


def write(results: Results, readme: pathlib.Path) -> None:
    """Puts the tables between the page's marks, and the chart beside it."""
    picture = readme.with_name("peers.svg")
    picture.write_text(chart.bars(chart_groups(results), titles(results), "CPU time of the proxy, microseconds a request"))
    text = f"{BEGIN}\n\n![CPU time a request]({picture.name})\n\n{page(results)}\n{END}"
    before = readme.read_text()
    if BEGIN not in before:
        raise ValueError(f"{readme} has no line {BEGIN}")
    readme.write_text(re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: text, before, flags=re.DOTALL))


def chart_groups(results: Results) -> list[tuple[str, list[float | None]]]:
    """The works that are requests, each with every peer's median."""
    groups = []
    for work, rules in results.rows("saturation"):
        values = [[sample.cpu_microseconds for sample in results.of(peer, work, rules)] for peer in results.peers]
        groups.append((label(work, rules), [statistics.median(value) if value else None for value in values]))
    return groups
