"""The one upstream of all peers: an nginx with a port for each family, and a WebSocket echo behind it."""

import pathlib
import sys

from processes import Process, free_port
from proxies import HERE, Nginx, fill
from rules import FAMILIES, Family


class Upstream:
    """Listens on `ports`, one a family; runs on the load's core."""

    def __init__(self, folder: pathlib.Path, core: int | None) -> None:
        folder.mkdir(parents=True)
        (folder / "answer-64k.json").write_text('"' + "x" * (64 * 1024 - 3) + '"\n')
        self.ports: dict[Family, int] = {family: free_port() for family in FAMILIES}
        echo = free_port()
        config = folder / "upstream.conf"
        config.write_text(fill("upstream.conf", folder=folder, echo=echo, **self.ports))
        output = folder / "output.log"
        self._processes = [
            Process([sys.executable, HERE / "echo.py", str(echo)], core, output),
            Process([Nginx.binary, "-e", "stderr", "-p", folder, "-c", config], core, output),
        ]
        self._processes[0].wait_for(echo)
        for port in self.ports.values():
            self._processes[1].wait_for(port)

    def stop(self) -> None:
        for process in self._processes:
            process.stop()
