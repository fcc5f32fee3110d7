"""The load generators wrk, h2load and oha: their commands, and what they print."""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess

from certificate import HOST
from processes import Failed
from proxies import HERE, TOOLS

CONNECTIONS = 64
# What an API's client sends beside Host.
HEADERS = (
    "User-Agent: bench-client/1.0",
    "Accept: application/json",
    "Authorization: Bearer 0123456789abcdef0123456789abcdef",
)


@dataclasses.dataclass(frozen=True)
class Targets:
    """A file of targets, one a line, and which of them are skipped before the first."""

    file: pathlib.Path
    skipped: int = 0

    @property
    def first(self) -> str:
        return self.file.read_text().split(maxsplit=1)[0]

    def urls(self, scheme: str, port: int) -> pathlib.Path:
        """A file of them as URLs, which begins behind the skipped ones."""
        targets = self.file.read_text().split()
        skipped = self.skipped % len(targets)
        urls = self.file.with_suffix(f".{port}.urls")
        urls.write_text("".join(f"{scheme}://127.0.0.1:{port}{target}\n" for target in targets[skipped:] + targets[:skipped]))
        return urls


@dataclasses.dataclass
class Load:
    """What a generator has done: answers that came, those of them that were refusals, and failures of any kind."""

    count: int
    seconds: float
    refused: int = 0
    failed: int = 0
    # In milliseconds, by percentile.
    latency: dict[str, float] = dataclasses.field(default_factory=dict)


def wrk(
    port: int, tls: bool, targets: Targets, seconds: float, method: str = "GET", body: int = 0, connections: int = CONNECTIONS
) -> Load:
    """HTTP/1.1 with as many requests as the connections can take."""
    scheme = "https" if tls else "http"
    words = ["wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{max(1, round(seconds))}s"]
    words += ["--timeout", "10s", "--script", str(HERE / "requests.lua")]
    for header in (f"Host: {HOST}", *HEADERS):
        words += ["--header", header]
    printed = _run([*words, f"{scheme}://127.0.0.1:{port}", "--", str(targets.file), method, str(body), str(targets.skipped)])
    result = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    latency = {name: result[name] for name in ("p50", "p99", "p999")}
    return Load(result["count"], result["seconds"], result["refused"], result["failed"], latency)


def h2load(port: int, targets: Targets, seconds: float = 0, requests: int = 0, clients: int = 8, streams: int = 16) -> Load:
    """HTTP/2 over TLS with as many requests as the streams can take, for some seconds or a number of requests."""
    urls = targets.urls("https", port)
    words = ["h2load", "--threads=1", f"--clients={clients}", f"--max-concurrent-streams={streams}"]
    words.append(f"--requests={requests}" if requests else f"--duration={max(1, round(seconds))}")
    words += [f"--header={header}" for header in (f":authority: {HOST}", *HEADERS)]
    printed = _run([*words, f"--input-file={urls}"])
    done = re.search(r"finished in ([\d.]+)(us|ms|s)", printed)
    answers = re.search(r"(\d+) succeeded, (\d+) failed", printed)
    statuses = re.search(r"(\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", printed)
    if not (done and answers and statuses):
        raise Failed(f"h2load says nothing of its requests:\n{printed}")
    seconds = float(done[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[done[2]]
    return Load(int(answers[1]), seconds, int(statuses[3]) + int(statuses[4]), int(answers[2]))


def oha(port: int, tls: bool, http2: bool, targets: Targets, seconds: float, rate: int) -> Load:
    """Requests at a fixed rate; each latency counts from when its request was due, so that a stall is seen in full."""
    program = TOOLS / "cargo/bin/oha"
    if not program.is_file():
        raise Failed(f"oha is not installed: {program} is missing; run bench/peers/setup")
    scheme = "https" if tls else "http"
    urls = targets.urls(scheme, port)
    words = [str(program), "--no-tui", "--output-format", "json", "--insecure"]
    words += ["--latency-correction", "-q", str(rate), "-z", f"{max(1, round(seconds))}s"]
    words += ["--http2", "-c", "8", "-p", "16"] if http2 else ["-c", str(CONNECTIONS)]
    # Beside the authority of HTTP/2 a Host of another name is refused.
    for header in HEADERS if http2 else (f"Host: {HOST}", *HEADERS):
        words += ["-H", header]
    result = json.loads(_run([*words, "--urls-from-file", str(urls)]))
    statuses = {int(status): count for status, count in result["statusCodeDistribution"].items()}
    count = sum(statuses.values())
    percentiles = result["latencyPercentiles"]
    latency = {name: percentiles[key] * 1000 for name, key in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))}
    # Requests that the end of the run has cut off are no failures.
    failed = sum(count for text, count in result["errorDistribution"].items() if "deadline" not in text)
    refused = sum(number for status, number in statuses.items() if status >= 400)
    return Load(count, result["summary"]["total"], refused, failed, latency)


def _run(words: list[str]) -> str:
    if not shutil.which(words[0]):
        raise Failed(f"{words[0]} is not installed: run bench/peers/setup")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout
