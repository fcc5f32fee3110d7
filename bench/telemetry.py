#!/usr/bin/env python3
"""What logs, metrics and traces cost: CPU time a request with all of them on, and with all of them off.

Both gateways run all the time; the load goes to one and then to the other, round by round, so that both see the same
machine. Requests come at a fixed rate that both can take: at saturation the slower one lets its client and its upstream
sleep more often, and pays for waking them, which has nothing to do with telemetry (`--rate 0` measures that). A third one has a reader of its log that does not read, and a collector that is gone: it must not answer later
than the one whose log is read. Figures of two runs are not to be compared.

Needs nginx, and the generators that `bench/peers/setup generators` installs.
"""

import argparse
import contextlib
import dataclasses
import http.server
import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

from generators import Load, Targets, oha, wrk  # noqa: E402
from processes import Process, free_port  # noqa: E402

CONTRACT = """version = 1
[[family]]
name = "api"
claims = ["/api/v1/workspaces/{workspace}/**"]
[profile.api]
owns = ["api"]
routes = ["api.toml"]
"""
PROFILE = '[[route]]\nmethod = "*"\npath = "/api/v1/workspaces/{workspace}/**"\n'
NGINX = """daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; default_type application/json;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{{"padding":"{padding}"}}'; }} }}
}}
"""
OFF = '[log]\naccess = false\nlevel = "error"\n[metrics]\nenabled = false\n'


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes every batch."""

    bytes_taken = 0

    def do_POST(self) -> None:  # noqa: N802, the name is the library's
        length = int(self.headers["Content-Length"])
        Collector.bytes_taken += len(self.rfile.read(length))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@dataclasses.dataclass
class Gateway:
    """A running gateway, and what was measured of it, by round."""

    name: str
    process: Process
    port: int
    admin: int
    microseconds: list[float] = dataclasses.field(default_factory=list)
    loads: list[Load] = dataclasses.field(default_factory=list)

    def measure(self, targets: Targets, seconds: float, rate: int) -> None:
        before = self.process.cpu_seconds()
        load = oha(self.port, False, False, targets, seconds, rate) if rate else wrk(self.port, False, targets, seconds)
        # What a record or a span costs later is its request's too.
        time.sleep(0.2)
        spent = self.process.cpu_seconds() - before
        if load.failed or load.refused or not load.count:
            raise SystemExit(f"{self.name}: {load}")
        self.microseconds.append(spent / load.count * 1e6)
        self.loads.append(load)

    def dropped(self) -> str:
        import urllib.request

        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return ", ".join(line.split("signal=")[1].replace("}", "") for line in lines if line.startswith("gateway_telemetry_dropped"))


def start(name: str, tables: str, folder: pathlib.Path, upstream: int, options: argparse.Namespace, output: pathlib.Path) -> Gateway:
    port, admin = free_port(), free_port()
    config = folder / f"{name}.toml"
    config.write_text(
        f'contract = "contract.toml"\nthreads = 1\n[listen]\npublic = "127.0.0.1:{port}"\nadmin = "127.0.0.1:{admin}"\n'
        f'{tables}[upstream.api]\nurl = "http://127.0.0.1:{upstream}"\nready = false\n'
    )
    process = Process([options.gateway, "run", "--config", config], 0, output)
    process.wait_for(port)
    return Gateway(name, process, port, admin)


def median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", type=pathlib.Path, default=HERE.parent / "target/release/gateway")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rate", type=int, default=8000, help="requests a second; 0 for as many as can be")
    parser.add_argument("--limit", type=float, default=1.15, help="the most that all of it may cost, as a ratio")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "contract.toml").write_text(CONTRACT)
        (folder / "api.toml").write_text(PROFILE)
        file = folder / "targets.txt"
        file.write_text("".join(f"/api/v1/workspaces/w{number}/files/{number}?page={number}\n" for number in range(1000)))
        targets = Targets(file)
        upstream = free_port()
        nginx = folder / "nginx.conf"
        nginx.write_text(NGINX.format(folder=folder, port=upstream, padding="x" * 80))
        stack.enter_context(Process(["nginx", "-e", "stderr", "-c", nginx], 1, folder / "nginx.log")).wait_for(upstream)
        collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        stack.callback(collector.shutdown)

        def traced(port: int) -> str:
            return f'[traces]\nendpoint = "http://127.0.0.1:{port}"\nsample = "10%"\n'

        pipe = folder / "pipe"
        os.mkfifo(pipe)
        unread = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, unread)
        taken, gone = traced(collector.server_port), traced(free_port())
        gateways = [
            start("off", OFF, folder, upstream, options, folder / "off.log"),
            start("on", taken, folder, upstream, options, folder / "on.log"),
            start("unread", gone, folder, upstream, options, pipe),
        ]
        for gateway in gateways:
            stack.callback(gateway.process.stop)
            wrk(gateway.port, False, targets, 1)
        for turn in range(options.rounds):
            for gateway in gateways if turn % 2 == 0 else reversed(gateways):
                gateway.measure(targets, options.seconds, options.rate)
        off, on, unread_one = gateways
        ratios = [one / other for one, other in zip(on.microseconds, off.microseconds, strict=True)]
        print(f"load average {os.getloadavg()[0]:.1f}; {options.rounds} rounds of {options.seconds:g} s at {options.rate or 'most'} requests/s; medians (least to most)")
        print("| Gateway | CPU time a request, µs | requests/s | p50, ms | p99, ms |\n|---|---|---|---|---|")
        for gateway in gateways:
            rates = [load.count / load.seconds for load in gateway.loads]
            latencies = [median([load.latency[key] for load in gateway.loads]) for key in ("p50", "p99")]
            print(f"| {gateway.name} | {median(gateway.microseconds)} | {statistics.median(rates):,.0f} | {' | '.join(latencies)} |")
        print(f"on / off: {median(ratios)}, the limit is {options.limit}")
        print(f"spans: {Collector.bytes_taken:,} bytes taken; log: {(folder / 'on.log').stat().st_size:,} bytes")
        print(f"dropped by on: {on.dropped()}; by unread: {unread_one.dropped()}")
        if statistics.median(ratios) > options.limit:
            raise SystemExit("logs, metrics and traces cost more than they may")


if __name__ == "__main__":
    main()
