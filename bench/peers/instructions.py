#!/usr/bin/env python3
"""Counts the instructions that the gateway needs for a request, and compares them with a stored baseline.

    bench/peers/instructions.py              # compare; exit code 1 when a work needs 3 % more
    bench/peers/instructions.py --write      # store what was counted as the new baseline
    bench/peers/instructions.py --functions  # the functions that need most of them, too

The real gateway runs under callgrind, in front of a real upstream, with one request in flight. What is counted are
windows of some hundred requests after a warm-up, so start and end play no part; their median is taken. Unlike times,
such counts hardly differ between runs, and other work on the machine does not touch them: 3 % is seen at once.
They say nothing about system calls, whose work is the kernel's, nor about memory's speed.

Counts differ between compilers and C libraries; a baseline of others is not compared with. Exit codes: 0 no work needs
more, 1 some work does, 2 it could not be counted.
"""

import argparse
import collections.abc
import dataclasses
import json
import pathlib
import platform
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys

import callgrind
import generators
from certificate import HOST, make_certificate
from connections import request
from processes import Failed
from proxies import HERE, PEERS, REPOSITORY, TOOLS, Gateway, Running, Site
from rules import forwarded_targets, refused_targets, table
from upstream import Upstream

BASELINE = HERE.parent / "instructions.json"
ALLOWED = 0.03
RULES = 1000
# A window asks for each target twice.
WARM_UP, WINDOW, WINDOWS = 240, 480, 5


@dataclasses.dataclass(frozen=True)
class Path:
    """One way through the gateway."""

    name: str
    tls: bool = False
    http2: bool = False
    refused: bool = False


PATHS = (Path("h1"), Path("refused", refused=True), Path("tls-h1", tls=True), Path("tls-h2", tls=True, http2=True))


class Client:
    """One connection with one request in flight."""

    def __init__(self, port: int, tls: bool) -> None:
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connection = context.wrap_socket(connection, server_hostname=HOST)
        self._connection = connection

    def ask(self, target: str, status: int) -> None:
        self._connection.sendall(request(target))
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        if not head.startswith(f"HTTP/1.1 {status}".encode()):
            raise Failed(f"{target} was answered {head[:40]!r}, not {status}")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        missing = int(length[1]) - len(body) if length else 0
        while missing > 0:
            missing -= len(self._more())

    def _more(self) -> bytes:
        part = self._connection.recv(65536)
        if not part:
            raise Failed("the gateway closed the connection")
        return part


class Callgrind(Gateway):
    """The gateway under callgrind."""

    ready = "false"  # A probe in a window would count for its requests.

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        valgrind = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={site.folder / 'callgrind.out'}",
            "--separate-threads=yes",
        ]
        return [*valgrind, "--vgdb=yes", f"--vgdb-prefix={site.folder / 'vgdb'}", *super().configure(site, port)]


def control(running: Running, pid: int, command: str) -> None:
    words = ["vgdb", f"--vgdb-prefix={running.folder / 'vgdb'}", f"--pid={pid}", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise Failed(f"callgrind does not {command}: {done.stderr.strip()[-300:]}")


def sender(path: Path, port: int, folder: pathlib.Path) -> collections.abc.Callable[[int], None]:
    """What sends so many requests, one after the other; HTTP/2 ones over a new connection each time."""
    targets = refused_targets() if path.refused else [target for target, _ in forwarded_targets(table(RULES))]
    if path.http2:
        file = folder / "targets.txt"
        file.write_text("".join(f"{target}\n" for target in targets))
        return lambda number: _send_http2(port, file, number)
    client = Client(port, path.tls)
    status = 404 if path.refused else 200

    def ask(number: int) -> None:
        for at in range(number):
            client.ask(targets[at % len(targets)], status)

    return ask


def _send_http2(port: int, targets: pathlib.Path, number: int) -> None:
    load = generators.h2load(port, generators.Targets(targets), requests=number, clients=1, streams=1)
    if load.count != number or load.refused:
        raise Failed(f"of {number} requests over HTTP/2 {load.count} were answered, and {load.refused} refused")


def count(path: Path, running: Running, pid: int) -> list[float]:
    """Instructions a request, of each window."""
    ask = sender(path, running.port, running.folder)
    ask(WARM_UP)
    control(running, pid, "zero")
    for _ in range(WINDOWS):
        ask(WINDOW)
        control(running, pid, "dump")  # and begins anew
    return [worker(running, number).total / WINDOW for number in range(1, WINDOWS + 1)]


def worker(running: Running, number: int) -> callgrind.Profile:
    """The worker's thread in one window. What the threads of the log and of the timers do goes by the clock."""
    profiles = [callgrind.Profile(dump) for dump in running.folder.glob(f"callgrind.out.{number}-*")]
    if not profiles:
        raise Failed("callgrind has not written what it counted")
    return max(profiles, key=lambda profile: profile.total)


def toolchain() -> dict[str, str]:
    """What the counts depend on besides the code."""
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False, cwd=HERE).stdout.strip()
    valgrind = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return {"rustc": compiler, "libc": " ".join(platform.libc_ver()), "valgrind": valgrind}


def measure(folder: pathlib.Path, works: list[str], functions: bool) -> dict[str, list[float]]:
    certificate = make_certificate(folder / "certificate")
    upstream = Upstream(folder / "upstream", None)
    peer = Callgrind()
    peer.binary = PEERS["gateway"].binary
    counted = {}
    try:
        for path in [path for path in PATHS if path.name in works]:
            print(f"counting {path.name}", file=sys.stderr)
            site = Site(table(RULES), certificate if path.tls else None, upstream.ports, folder / path.name, None)
            running = Running(peer, site)
            try:
                running.process.wait_for(running.port)
                counted[path.name] = count(path, running, running.process.pid)
                if functions:
                    print(callgrind.table(worker(running, 1), WINDOW))
            finally:
                running.process.stop()
    finally:
        upstream.stop()
    return counted


def compare(counted: dict[str, list[float]], baseline: dict[str, float]) -> bool:
    """Prints a line for each work; whether none needs too much."""
    within = True
    for name, windows in counted.items():
        middle = statistics.median(windows)
        line = f"{name:8} {middle:10,.0f} instructions a request ({min(windows):,.0f} to {max(windows):,.0f})"
        if name in baseline:
            change = middle / baseline[name] - 1
            within &= change <= ALLOWED
            line += f", {change:+.1%} of {baseline[name]:,.0f}" + ("" if change <= ALLOWED else f": more than {ALLOWED:.0%}")
        print(line)
    return within


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # Not the one that was optimised with counts of a load: no two loads count the same.
    parser.add_argument("--gateway", type=pathlib.Path, default=REPOSITORY / "target/dist/gateway")
    names = [path.name for path in PATHS]
    parser.add_argument("--work", nargs="+", choices=names, default=names, metavar="WORK", help=f"of {', '.join(names)}")
    parser.add_argument("--write", action="store_true", help="store the counts as the baseline")
    parser.add_argument("--functions", action="store_true", help="print the functions that cost most")
    options = parser.parse_args()
    PEERS["gateway"].binary = options.gateway.resolve()
    folder = TOOLS / "instructions"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        PEERS["gateway"].version()
        counted = measure(folder, options.work, options.functions)
    except (Failed, OSError) as why:
        print(f"instructions: {why}", file=sys.stderr)
        return 2
    if options.write:
        if options.work != names:
            parser.error("a baseline is of all works")
        medians = {name: round(statistics.median(windows)) for name, windows in counted.items()}
        BASELINE.write_text(json.dumps({"toolchain": toolchain(), "instructions": medians}, indent=2) + "\n")
    stored = json.loads(BASELINE.read_text())
    if stored["toolchain"] != toolchain():
        print(
            f"instructions: the baseline is of {stored['toolchain']}, this is {toolchain()}; store one with --write",
            file=sys.stderr,
        )
        compare(counted, {})
        return 2
    return 0 if compare(counted, stored["instructions"]) else 1


if __name__ == "__main__":
    sys.exit(main())
