#!/usr/bin/env python3
"""Runs the black-box kit against the real gateway.

    tests/kit/run.py SCRIPT... [--tls] [--h2] [--gateway PATH] [--kit DIR] [--full] [--again] [-- ARGUMENTS OF THE SCRIPT]
    tests/kit/run.py all

SCRIPT is `paths`, `smuggle`, `h2probe`, `slow`, `ws` or `stream`; `all` is every one of them, plain and over TLS. The
gateway is started with the configuration of the same subject beside this file, on free ports, in front of the script's
own upstreams, and ended by its process id. Printed are the failed cases and each script's last line; with `--full` all
that they say.

A case that the library under the gateway decides stands by name in docs/limits.md, in a row `| script | case | ... |`;
for `paths --h2` the script is `paths over HTTP/2`.
The exit code is 0 when no other case has failed, 1 when one has, and 2 when the kit or the gateway is not there, or
when the gateway has not survived a script.

The kit is no part of this repository. It is looked for in the folder given by `--kit`, by the variable KIT, or in
`../shared/kit` beside the repository. Some scripts need Python packages; where they are missing they are installed
into a folder of their own under `target/`.
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import venv

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
LIMITS = REPOSITORY / "docs/limits.md"
PACKAGES = ["h2==4.4.1", "hyperframe==6.1.0", "hpack==4.2.0"]

# Script -> its configuration's folder, and its upstreams.
SUBJECTS = {
    "paths": ("paths", ["api", "admin", "static", "root"]),
    "smuggle": ("whole", ["whole"]),
    "h2probe": ("whole", ["whole"]),
    "slow": ("slow", ["whole"]),
    "ws": ("whole", ["whole"]),
    "stream": ("stream", ["whole", "grpc"]),
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


def known_failures(script, h2):
    """The script's cases that docs/limits.md names, by their whole name or its last word."""
    script += " over HTTP/2" if h2 else ""
    rows = (line.split("|") for line in LIMITS.read_text().splitlines() if line.startswith("| "))
    return {cells[2].strip().strip("`") for cells in rows if len(cells) > 3 and cells[1].strip() == script}


def python_with_packages():
    """A Python that has the packages which the scripts with HTTP/2 need."""
    probe = [sys.executable, "-c", "import h2, hyperframe, hpack"]
    if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0:
        return sys.executable
    folder = REPOSITORY / "target/kit-python"
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def script_arguments(script, upstreams, ports, gateway, options):
    arguments = ["--tls"] if options.tls else []
    if script == "paths":
        pairs = zip(upstreams, ports)
        arguments += [word for name, port in pairs for word in ("--upstream", f"{name}={port}")]
        return arguments + (["--h2"] if options.h2 else [])
    arguments += ["--upstream-port", str(ports[0])]
    if script == "stream":
        arguments += ["--grpc-port", str(ports[1])]
    if script in ("stream", "h2probe"):
        arguments += ["--pid", str(gateway.pid)]
    return arguments


def configuration(folder, place, tls):
    """A copy of the subject's configuration, with TLS where it is wanted."""
    shutil.copytree(HERE / folder, place, dirs_exist_ok=True)
    path = place / "gateway.toml"
    if tls:
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=kit.test "
            "-addext subjectAltName=DNS:*.test -keyout key.pem -out cert.pem".split(),
            cwd=place,
            check=True,
            stderr=subprocess.DEVNULL,
        )
        with path.open("a") as file:
            file.write('\n[listen.tls]\ncert = "cert.pem"\nkey  = "key.pem"\n')
    return path


def run(script, options, behind):
    """Runs one script; answers 0, 1 or 2 as above."""
    kit = pathlib.Path(options.kit) / f"{script}.py"
    if not kit.is_file():
        print(f"the kit is not there: no {kit.name} in {options.kit}; name its folder with --kit or KIT", file=sys.stderr)
        return UNDECIDED
    if not options.gateway.is_file():
        print(f"no gateway at {options.gateway}: build it with `cargo build --package gateway`", file=sys.stderr)
        return UNDECIDED
    python = python_with_packages() if script in ("h2probe", "stream") or options.h2 else sys.executable

    folder, upstreams = SUBJECTS[script]
    ports = free_ports(len(upstreams))
    environment = os.environ | {f"KIT_PORT_{name.upper()}": str(port) for name, port in zip(upstreams, ports)}
    with tempfile.TemporaryDirectory(prefix="kit-") as place:
        path = configuration(folder, pathlib.Path(place), options.tls)
        gateway = subprocess.Popen(
            [options.gateway.resolve(), "run", "--config", path],
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
            words = [python, str(kit), "--target", public]
            words += script_arguments(script, upstreams, ports, gateway, options) + behind
            return judge(script, words, gateway, options)
        finally:
            gateway.terminate()
            try:
                gateway.wait(timeout=30)
            except subprocess.TimeoutExpired:
                gateway.kill()
                gateway.wait()


def attempt(script, options, behind):
    """Runs one script. Some cases have a bound in milliseconds, which a machine that is busy otherwise may miss."""
    code = run(script, options, behind)
    if code == 1 and options.again:
        print(f"{script}: FLAKY, once more", flush=True)
        code = run(script, options, behind)
    return code


def judge(script, words, gateway, options):
    known, named, failed, last = known_failures(script, options.h2), [], [], ""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            last = line.rstrip()
            is_failure = line.startswith("FAIL ")
            if is_failure:
                case = line.split(" - ")[0].removeprefix("FAIL ").strip()
                (named if {case, case.split()[-1]} & known else failed).append(case)
            if options.full or is_failure:
                sys.stdout.write(line)
                sys.stdout.flush()
    kind = ("TLS" if options.tls else "plain") + (" HTTP/2" if options.h2 else "")
    print(f"{script} ({kind}): {last}; {len(named)} of the failed are named in docs/limits.md", flush=True)
    if gateway.poll() is not None:
        print(f"the gateway ended during the run: exit code {gateway.returncode}", file=sys.stderr)
        return UNDECIDED
    # A run of nothing is no success, and neither is one that broke off.
    if " passed, " not in last or last.startswith("0 passed") or (process.returncode and not named and not failed):
        print("the script has not said that cases passed", file=sys.stderr)
        return UNDECIDED
    return 1 if failed else 0


def main():
    own, behind = sys.argv[1:], []
    if "--" in own:
        cut = own.index("--")
        own, behind = own[:cut], own[cut + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT", choices=[*SUBJECTS, "all"])
    parser.add_argument("--tls", action="store_true", help="over TLS")
    parser.add_argument("--h2", action="store_true", help="paths: as HTTP/2 `:path`")
    parser.add_argument("--gateway", type=pathlib.Path, default=REPOSITORY / "target/debug/gateway")
    parser.add_argument("--kit", type=pathlib.Path, default=os.environ.get("KIT") or REPOSITORY.parent / "shared/kit")
    parser.add_argument("--full", action="store_true", help="print every case, passed ones too")
    parser.add_argument("--again", action="store_true", help="run a script with failed cases a second time, and say so")
    options = parser.parse_args(own)
    if options.scripts != ["all"]:
        return max(attempt(script, options, behind) for script in options.scripts)
    worst = 0
    for options.tls in (False, True):
        for script in SUBJECTS:
            worst = max(worst, attempt(script, options, behind))
    options.h2 = True
    return max(worst, attempt("paths", options, behind))


if __name__ == "__main__":
    sys.exit(main())
