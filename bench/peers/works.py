"""The works: what is sent through a peer, over what, and what one of it is called."""

import collections.abc
import dataclasses
import pathlib
import random
import threading
import typing

import connections
import generators
import websocket
from generators import Load, Targets
from processes import Failed
from proxies import Running
from rules import Rule, forwarded_targets, refused_targets

# Ids differ from request to request. HAProxy remembers what its expressions said of the last 10,000 paths: fewer would
# measure that memory in place of the table.
TARGETS = 40_000
IDLE_CONNECTIONS = 2000
LARGE_ANSWER = "/api/v1/users/answer-64k"
UPLOAD = "/api/v1/users/upload"
MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Job:
    """One measurement's place: a started peer, the files of targets, and how long."""

    running: Running
    targets: dict[str, Targets]
    seconds: float
    # Requests a second of the works at a fixed rate.
    rate: int

    @property
    def port(self) -> int:
        return self.running.port


@dataclasses.dataclass(frozen=True)
class Work:
    """What is measured. `unit` is what CPU time is divided by."""

    name: str
    title: str
    send: collections.abc.Callable[[Job], Load]
    tls: bool = False
    unit: str = "request"
    # Every answer must be a refusal, or none.
    refused: bool = False
    # Whether it is measured with larger tables, too.
    tables: bool = False
    # Whether its throughput is the peer's limit, and its latencies those of a fixed rate.
    kind: typing.Literal["saturation", "rate", "cost"] = "saturation"


WORKS: dict[str, Work] = {
    work.name: work
    for work in (
        Work("h1", "HTTP/1.1", lambda job: generators.wrk(job.port, False, job.targets["forwarded"], job.seconds), tables=True),
        Work(
            "tls-h1", "TLS, HTTP/1.1", lambda job: generators.wrk(job.port, True, job.targets["forwarded"], job.seconds), tls=True
        ),
        Work("tls-h2", "TLS, HTTP/2", lambda job: generators.h2load(job.port, job.targets["forwarded"], job.seconds), tls=True),
        Work(
            "refused",
            "refused path",
            lambda job: generators.wrk(job.port, False, job.targets["refused"], job.seconds),
            refused=True,
        ),
        Work("answer-64k", "answer of 64 KiB", lambda job: generators.wrk(job.port, False, job.targets["large"], job.seconds)),
        Work(
            "upload-1m",
            "upload of 1 MiB",
            lambda job: generators.wrk(job.port, False, job.targets["upload"], job.seconds, "POST", MIB, connections=16),
        ),
        Work("websocket", "WebSocket echo", lambda job: websocket.exchange(job.port, job.seconds), unit="message", kind="cost"),
        Work(
            "handshake",
            "new TLS connection",
            lambda job: connections.handshakes(job.port, job.targets["forwarded"].first, job.seconds),
            tls=True,
            unit="connection",
            kind="cost",
        ),
        Work("h1-rate", "HTTP/1.1", lambda job: _at_rate(job), kind="rate"),
        Work("tls-h1-rate", "TLS, HTTP/1.1", lambda job: _at_rate(job, tls=True), tls=True, kind="rate"),
        Work("tls-h2-rate", "TLS, HTTP/2", lambda job: _at_rate(job, tls=True, http2=True), tls=True, kind="rate"),
    )
}


def _at_rate(job: Job, tls: bool = False, http2: bool = False) -> Load:
    return generators.oha(job.port, tls, http2, job.targets["forwarded"], job.seconds, job.rate)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a work has cost a peer."""

    load: Load
    # CPU time for each answer.
    cpu_microseconds: float
    # Of one core, over the whole time.
    share: float


def measure(work: Work, job: Job) -> Cost:
    """Sends the work and takes the CPU time of all the peer's processes over it."""
    process = job.running.process
    before = process.cpu_seconds()
    load = work.send(job)
    used = process.cpu_seconds() - before
    if load.count == 0:
        raise Failed(f"{work.name}: nothing was answered")
    expected = load.count if work.refused else 0
    if load.failed or load.refused != expected:
        raise Failed(f"{work.name}: of {load.count} answers {load.refused} were refusals, and {load.failed} requests failed")
    job.running.cut_logs()
    return Cost(load, used * 1e6 / load.count, used / load.seconds)


@dataclasses.dataclass(frozen=True)
class Memory:
    """Resident bytes of a peer that has just been started, of each idle connection, and under load."""

    idle: int
    connection: float
    loaded: int


def memory(job: Job) -> Memory:
    process = job.running.process
    target = job.targets["forwarded"].first
    connections.open_idle(job.port, target, 1)[0].close()
    idle = process.memory()
    opened = connections.open_idle(job.port, target, IDLE_CONNECTIONS)
    grown = process.memory() - idle
    for connection in opened:
        connection.close()
    seen: list[int] = []
    halfway = threading.Timer(job.seconds / 2, lambda: seen.append(process.memory()))
    halfway.start()
    generators.wrk(job.port, False, job.targets["forwarded"], job.seconds)
    halfway.join()
    job.running.cut_logs()
    return Memory(idle, grown / IDLE_CONNECTIONS, seen[0])


def write_targets(rules: list[Rule], folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Files of targets, one a line, for the load generators. Shuffled, always alike: a slow peer does not get to the end of
    a file, and would be asked for the first rules of its table alone.
    """
    folder.mkdir(parents=True)
    lists = {
        "forwarded": [target for target, _ in forwarded_targets(rules, TARGETS)],
        "refused": refused_targets(TARGETS),
        "large": [LARGE_ANSWER],
        "upload": [UPLOAD],
    }
    files = {}
    for name, targets in lists.items():
        random.Random(0).shuffle(targets)
        files[name] = folder / f"{name}.txt"
        files[name].write_text("".join(f"{target}\n" for target in targets))
    return files
