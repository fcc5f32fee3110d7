#!/usr/bin/env python3
"""Runs one script of the black-box kit against the real gateway.

    tests/kit/run.py SCRIPT [--gateway PATH] [--kit DIR] [--full] [-- ARGUMENTS OF THE SCRIPT]

SCRIPT is `paths`, `smuggle`, `ws`, `stream` or `slow`. The gateway is started with the configuration of the same
subject beside this file, on free ports, in front of the script's own upstreams, and ended by its process id. Printed
are the failed cases and the script's last line; with `--full` all it says. The exit code is the script's; 2 when
the kit or the gateway is not there, or when the gateway has not survived the script.

The kit is no part of this repository. It is looked for in the folder given by `--kit`, by the variable KIT, or in
`../shared/kit` beside the repository.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent

# Script -> its configuration's folder, its upstreams, and how it is told their ports.
SUBJECTS = {
    "paths": ("paths", ["api", "admin", "static", "root"]),
    "smuggle": ("whole", ["whole"]),
    "ws": ("whole", ["whole"]),
    "stream": ("whole", ["whole"]),
    "slow": ("slow", ["whole"]),
}
UNDECIDED = 2


def free_ports(count):
    """Ports that nobody listens on; held together, so that no two are the same."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [held.getsockname()[1] for held in sockets]
    for held in sockets:
        held.close()
    return ports


def addresses(process):
    """The public address, from the line that the gateway writes when it listens."""
    for line in process.stdout:
        try:
            record = json.loads(line)
        except ValueError:
            sys.stderr.write(line)
            continue
        if "public" in record and "admin" in record:
            return record["public"]
    return None


def script_arguments(subject, upstreams, ports, gateway):
    if subject == "paths":
        pairs = zip(upstreams, ports)
        return [word for name, port in pairs for word in ("--upstream", f"{name}={port}")]
    arguments = ["--upstream-port", str(ports[0])]
    if subject == "stream":
        # An upstream that speaks HTTP/2 is no subject of this configuration.
        arguments += ["--no-h2", "--pid", str(gateway.pid)]
    return arguments


def main():
    own, behind = sys.argv[1:], []
    if "--" in own:
        cut = own.index("--")
        own, behind = own[:cut], own[cut + 1 :]
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("script", choices=sorted(SUBJECTS))
    options.add_argument("--gateway", type=pathlib.Path, default=REPOSITORY / "target/debug/gateway")
    options.add_argument("--kit", type=pathlib.Path, default=os.environ.get("KIT") or REPOSITORY.parent / "shared/kit")
    options.add_argument("--full", action="store_true", help="print every case, passed ones too")
    arguments = options.parse_args(own)

    script = pathlib.Path(arguments.kit) / f"{arguments.script}.py"
    if not script.is_file():
        print(f"the kit is not there: no {script.name} in {arguments.kit}; name its folder with --kit or KIT", file=sys.stderr)
        return UNDECIDED
    if not arguments.gateway.is_file():
        print(f"no gateway at {arguments.gateway}: build it with `cargo build --package gateway`", file=sys.stderr)
        return UNDECIDED

    folder, upstreams = SUBJECTS[arguments.script]
    ports = free_ports(len(upstreams))
    environment = os.environ | {f"KIT_PORT_{name.upper()}": str(port) for name, port in zip(upstreams, ports)}
    gateway = subprocess.Popen(
        [arguments.gateway, "run", "--config", HERE / folder / "gateway.toml"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        public = addresses(gateway)
        if public is None:
            print(f"the gateway did not start: exit code {gateway.wait()}", file=sys.stderr)
            return UNDECIDED
        # What the gateway logs is read on, so that a full pipe never stops it.
        threading.Thread(target=lambda: [None for _ in gateway.stdout], daemon=True).start()
        words = [sys.executable, str(script), "--target", public]
        words += script_arguments(arguments.script, upstreams, ports, gateway) + behind
        last = ""
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as kit:
            for line in kit.stdout:
                last = line
                if arguments.full or not line.startswith("PASS "):
                    sys.stdout.write(line)
                    sys.stdout.flush()
        if gateway.poll() is not None:
            print(f"the gateway ended during the run: exit code {gateway.returncode}", file=sys.stderr)
            return UNDECIDED
        # A run of nothing is no success.
        if kit.returncode == 0 and (not last.rstrip().endswith(" 0 failed") or last.startswith("0 passed")):
            print("the script has not said that cases passed", file=sys.stderr)
            return UNDECIDED
        return kit.returncode
    finally:
        gateway.terminate()
        try:
            gateway.wait(timeout=30)
        except subprocess.TimeoutExpired:
            gateway.kill()
            gateway.wait()


if __name__ == "__main__":
    sys.exit(main())
