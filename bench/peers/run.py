#!/usr/bin/env python3
"""Measures the gateway and other proxies side by side, on the same work with the same routing table.

    bench/peers/run.py --peers gateway nginx haproxy --work h1 tls-h2 --rounds 2 --seconds 2

Each peer has one worker on one core; the load and the upstream have another. The peers run in turn, round by round and
in another order each time, so that whatever else the machine does meets all of them. What is compared is CPU time a
request, so a busy machine disturbs little; throughput and latencies it does disturb.

Exit codes: 0 all was measured, 1 some peer failed at some work, 2 nothing could be measured.
"""

import argparse
import datetime
import http.client
import json
import os
import pathlib
import shutil
import sys

import report
import works
from certificate import make_certificate
from generators import Targets
from processes import Failed
from proxies import PEERS, TOOLS, Peer, Running, Site
from report import MemorySample, Results, Sample
from routing import verify, wait_until_routed
from rules import table
from upstream import Upstream
from works import TARGETS, WORKS, Job, Work

SMALLEST_TABLE = 5
DEFAULT_PEERS = ["gateway", "nginx", "haproxy", "envoy", "traefik", "caddy"]
# Requests a second of the calibration are halved, and rounded to this.
RATE_STEP = 100


def arguments() -> argparse.Namespace:
    every = [*WORKS, "memory"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peers", nargs="+", choices=list(PEERS), default=DEFAULT_PEERS, metavar="PEER", help=f"of {', '.join(PEERS)}")
    add("--work", nargs="+", choices=every, default=every, metavar="WORK", help=f"of {', '.join(every)}")
    add(
        "--rules",
        nargs="+",
        type=int,
        default=[5, 100, 1000, 10000],
        metavar="N",
        help="rules of the tables; other works than h1 take the least",
    )
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=4, help="of each measurement")
    add("--rate", type=int, help="requests a second of the latencies; half of what the first peer takes, if left out")
    add(
        "--gateway",
        type=pathlib.Path,
        default=PEERS["gateway"].binary,
        help="the binary; the one that `packaging/build-profiled` makes, if left out",
    )
    add("--results", type=pathlib.Path, default=TOOLS / "results.json", help="where all samples are kept")
    add("--add", action="store_true", help="keep what the results have of other works; each row is of one run")
    add("--readme", type=pathlib.Path, help="the page whose tables and chart are written anew")
    options = parser.parse_args()
    if min(options.rules) < SMALLEST_TABLE or options.rounds < 1 or options.seconds < 1:
        parser.error(f"a table has at least {SMALLEST_TABLE} rules; there is at least one round, of at least one second")
    return options


class Bench:
    """One run: what is started, and what has been measured."""

    def __init__(self, options: argparse.Namespace, folder: pathlib.Path) -> None:
        self.options = options
        self.folder = folder
        self.peers = [PEERS[name] for name in options.peers]
        cores = sorted(os.sched_getaffinity(0))
        self.peer_core: int | None = cores[0] if len(cores) > 1 else None
        load_core = cores[1] if len(cores) > 1 else None
        self.results = Results(
            date=datetime.date.today().isoformat(),
            command=f"bench/peers/run.py {' '.join(sys.argv[1:])}".strip(),
            machine=f"{_cpu_model()}, {len(cores)} cores, Linux {os.uname().release}",
            versions={peer.name: peer.version() for peer in self.peers},
            seconds=options.seconds,
        )
        if load_core is not None:
            os.sched_setaffinity(0, {load_core})
        self.certificate = make_certificate(folder / "certificate")
        self.upstream = Upstream(folder / "upstream", load_core)
        self.tables = {count: table(count) for count in sorted({SMALLEST_TABLE, *options.rules})}
        self.targets = {count: works.write_targets(rules, folder / f"targets-{count}") for count, rules in self.tables.items()}
        self.running: dict[tuple[str, int, bool], Running] = {}
        # What could not be started, and what failed once and is not tried again.
        self.unusable: set[tuple[str, int, bool]] = set()
        self.failures: set[tuple[str, str, int]] = set()

    def start(self, peer: Peer, count: int, tls: bool, name: str = "") -> Running:
        certificate = self.certificate if tls else None
        folder = self.folder / f"{peer.name}-{count}{'-tls' if tls else ''}{name}"
        running = Running(peer, Site(self.tables[count], certificate, self.upstream.ports, folder, self.peer_core))
        try:
            running.process.wait_for(running.port)
            wait_until_routed(running, self.tables[count])
            verify(running, self.tables[count])
        except BaseException:
            running.process.stop()
            raise
        return running

    def stop(self) -> None:
        for running in self.running.values():
            running.process.stop()
        self.upstream.stop()

    def plan(self) -> list[tuple[Work, int]]:
        """Each work with the sizes of table that it is measured with."""
        chosen = [work for work in WORKS.values() if work.name in self.options.work]
        return [
            (work, count) for work in chosen for count in (sorted(self.options.rules) if work.tables else [min(self.options.rules)])
        ]

    def fail(self, peer: Peer, work: str, count: int, why: Exception) -> None:
        print(f"  {peer.name}, {work}, {count} rules: {why}", file=sys.stderr)
        self.failures.add((peer.name, work, count))
        self.results.failures.append(f"{peer.title}, {work}, {count} rules: {why}")

    def start_all(self) -> None:
        for work, count in self.plan():
            for peer in self.peers:
                place = (peer.name, count, work.tls)
                if place not in self.running and place not in self.unusable:
                    print(f"starting {peer.name} with {count} rules{', TLS' if work.tls else ''}", file=sys.stderr)
                    try:
                        self.running[place] = self.start(peer, count, work.tls)
                    except (Failed, OSError, http.client.HTTPException) as why:
                        self.unusable.add(place)
                        self.fail(peer, "TLS" if work.tls else "plain", count, why)

    def job(self, running: Running, count: int, number: int = 0) -> Job:
        """Each round begins at other targets: what a slow peer remembers of the last round is no help."""
        targets = {name: Targets(file, number * TARGETS // self.options.rounds) for name, file in self.targets[count].items()}
        return Job(running, targets, self.options.seconds, self.results.rate)

    def calibrate(self) -> None:
        """The rate of the latencies: the same for all peers."""
        if not any(work.kind == "rate" for work, _ in self.plan()):
            return
        count = min(self.options.rules)
        self.results.rate = self.options.rate or 0
        if not self.results.rate:
            running = self.running.get((self.peers[0].name, count, False)) or self.start(self.peers[0], count, False)
            self.running[self.peers[0].name, count, False] = running
            load = works.measure(WORKS["h1"], self.job(running, count)).load
            self.results.rate = max(RATE_STEP, round(load.count / load.seconds / 2 / RATE_STEP) * RATE_STEP)
        print(f"latencies at {self.results.rate} requests a second", file=sys.stderr)

    def round(self, number: int) -> None:
        turn = self.peers[number % len(self.peers) :] + self.peers[: number % len(self.peers)]
        for work, count in self.plan():
            print(f"round {number + 1}, {work.name}, {count} rules, load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
            for peer in turn:
                running = self.running.get((peer.name, count, work.tls))
                if running is None or (peer.name, work.name, count) in self.failures:
                    continue
                try:
                    cost = works.measure(work, self.job(running, count, number))
                except (Failed, OSError) as why:
                    self.fail(peer, work.name, count, why)
                    continue
                self.results.samples.append(
                    Sample(
                        peer=peer.name,
                        work=work.name,
                        rules=count,
                        round=number,
                        cpu_microseconds=cost.cpu_microseconds,
                        per_second=cost.load.count / cost.load.seconds,
                        share=cost.share,
                        latency=cost.load.latency,
                        load_average=os.getloadavg()[0],
                    )
                )
        if "memory" in self.options.work:
            for peer in turn:
                self.remember(peer, number)

    def remember(self, peer: Peer, number: int) -> None:
        count = min(self.options.rules)
        try:
            running = self.start(peer, count, False, f"-memory-{number}")
        except (Failed, OSError, http.client.HTTPException) as why:
            self.fail(peer, "memory", count, why)
            return
        try:
            taken = works.memory(self.job(running, count, number))
            self.results.memory.append(MemorySample(peer.name, number, taken.idle, taken.connection, taken.loaded))
        except (Failed, OSError, http.client.HTTPException) as why:
            self.fail(peer, "memory", count, why)
        finally:
            running.process.stop()


def _cpu_model() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return os.uname().machine


def main() -> int:
    options = arguments()
    PEERS["gateway"].binary = options.gateway.resolve()
    folder = TOOLS / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        bench = Bench(options, folder)
    except Failed as why:
        print(f"bench: {why}", file=sys.stderr)
        return 2
    try:
        bench.start_all()
        bench.calibrate()
        for number in range(options.rounds):
            bench.round(number)
        results = bench.results
        if options.add and options.results.exists():
            results = Results.from_json(json.loads(options.results.read_text())).replaced_by(results)
        options.results.write_text(json.dumps(results.as_json(), indent=1))
    except Failed as why:
        print(f"bench: {why}", file=sys.stderr)
        return 2
    finally:
        bench.stop()
    if not bench.results.samples and not bench.results.memory:
        print("bench: nothing was measured", file=sys.stderr)
        return 2
    print(report.page(results))
    if options.readme:
        report.write(results, options.readme)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
