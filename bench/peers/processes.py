"""Processes of a run: started on a core of their own, watched through /proc, and always ended."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import types
import typing

NANOSECONDS = 1_000_000_000
KIB = 1024


class Failed(Exception):
    """The run cannot go on; the text says why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A program and whatever it starts. Its output is appended to a file, which may be cut at any time."""

    def __init__(
        self,
        words: typing.Sequence[str | pathlib.Path],
        core: int | None,
        output: pathlib.Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        # A harness that is killed must not leave servers behind.
        pin = [] if core is None else ["taskset", "--cpu-list", str(core)]
        with output.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *pin, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | (environment or {}),
                start_new_session=True,
            )
        # `setpriv` and `taskset` become the program: this is its own id.
        self.pid = self._process.pid
        self.output = output
        self.words = [str(word) for word in words]

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        self.stop()

    def wait_for(self, port: int, seconds: float = 120) -> None:
        """Until it accepts connections on the port; fails when it ends before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (status := self._process.poll()) is not None:
                raise Failed(f"{self.words[0]} ended with status {status}; its output is in {self.output}")
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failed(f"{self.words[0]} does not listen after {seconds:.0f} s; its output is in {self.output}")

    def cpu_seconds(self) -> float:
        """User and system time so far, of all threads of all its processes; more exact than the ticks of /proc/PID/stat."""
        total = 0
        for pid in self._family():
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):  # it has just ended
                    total += int((thread / "schedstat").read_text().split()[0])
        return total / NANOSECONDS

    def memory(self) -> int:
        """Resident bytes of all its processes; pages that several share are counted once."""
        total = 0
        for pid in self._family():
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * KIB
        return total

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _family(self) -> list[int]:
        """The process and its descendants."""
        parents = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # it has just ended
                    parents[int(entry.name)] = int(_stat(int(entry.name))[1])
        found = [self.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold blanks: the state is the first."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
