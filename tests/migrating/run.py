#!/usr/bin/env python3
"""Puts the same routing table into nginx, HAProxy, Envoy, Traefik and this gateway, and asks each the same paths.

    run.py [--gateway PATH] [--bin FOLDER] [--page docs/migrating.md]

Each peer runs from its file in docs/migrating/, with free ports in place of the file's own. A peer whose binary is not
found in PATH or in FOLDER is named and left out; nothing found at all is an error. What each made of each path is printed,
and written into the page between its markers. Exit codes: 0 all as expected of the plain paths, 1 a peer differs there,
2 nothing could be asked.
"""

import argparse
import http.server
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ROOT / "docs" / "migrating"
WORKSPACE = "/api/v1/workspaces/w1"
EXT = WORKSPACE + "/agents/a1/runtime/ext"

# Paths that every server reads alike: all must agree on these.
PLAIN = [
    ("/api/v1/users/ada?tab=keys", "central"),
    ("/api/v1/workspaces", "central"),
    (WORKSPACE + "/files/a.txt", "workspace"),
    (EXT, "extension"),
    (EXT + "/github/actions/create-issue", "extension"),
    (EXT + "/github/unknown", "404"),
    ("/api/internal/jobs", "404"),
    ("/api/v1/usersx", "404"),
    ("/wp-login.php", "404"),
]
# Paths that servers read differently.
SPELLED = [
    WORKSPACE + "/files/a%2Fb.txt",
    WORKSPACE + "/agents/a1/runtime%2Fext/github",
    WORKSPACE + "/agents/a1/runtime/e%78t/github/unknown",
    WORKSPACE + "/files/../agents/a1/runtime/ext/github",
    WORKSPACE + "//agents/a1/runtime/ext/github/unknown",
    WORKSPACE + "/agents/a1/runtime/ext;v=1/github/unknown",
    WORKSPACE + "/x/..%2F..%2F..%2Finternal/jobs",
    "/api/v1/users/..%2f..%2finternal/jobs",
    "/api/v1/users/..;/../../internal/jobs",
]


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers its own name and the target that it received."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = f"{self.server.name} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """A peer that is stopped resets its idle connections, which is no error of ours."""

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def upstream(name):
    server = Server(("127.0.0.1", 0), Upstream)
    server.name = name
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, target):
    """What became of the raw target: who received it, and whether as it came, or the status."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while part := connection.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b" ")[1].decode()
    if status != "200":
        return status
    # HTTP/1.1 peers may answer in chunks: the name and the target stand on one line of them.
    line = next((line for line in body.decode().splitlines() if " /" in line), "")
    name, _, received = line.partition(" ")
    return name if received == target else f"{name}, changed"


def wait_for(port, process):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("does not listen")


def with_ports(text, ports):
    for old, new in ports.items():
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}").replace(f"port_value: {old} ", f"port_value: {new} ")
    return text


def commands(folder, ports, gateway):
    """For each peer its binary, a check of its file, and how it is started."""
    listen = ports[8080]
    static = f"""
entryPoints: {{ edge: {{ address: "127.0.0.1:{listen}" }} }}
providers: {{ file: {{ filename: {folder}/traefik.yaml }} }}
global: {{ checkNewVersion: false, sendAnonymousUsage: false }}
log: {{ level: ERROR }}
"""
    (folder / "traefik-static.yaml").write_text(static)
    urls = {
        f"AGENTTEAM_GATEWAY_{family}_UPSTREAM_URL": f"http://127.0.0.1:{ports[port]}"
        for family, port in (("CENTRAL", 3000), ("WORKSPACE", 3001), ("EXTENSION", 3002))
    }
    shutil.copytree(ROOT / "config" / "agentteam", folder / "agentteam")
    ours = folder / "agentteam" / "gateway.toml"
    text = ours.read_text().replace("0.0.0.0:8080", f"127.0.0.1:{listen}").replace("127.0.0.1:9901", "127.0.0.1:0")
    ours.write_text(text.replace('ready = "/readyz"', "ready = false"))
    nginx = ["-p", str(folder), "-c", "nginx.conf"]
    # Envoy's processes share memory by this number.
    envoy = ["-c", "envoy.yaml", "--base-id", str(os.getpid() % 60000 + 1), "--log-level", "error"]
    return {
        "nginx": ("nginx", ["-t", "-q", *nginx], nginx, {}),
        "HAProxy": ("haproxy", ["-c", "-q", "-f", "haproxy.cfg"], ["-db", "-f", "haproxy.cfg"], {}),
        "Envoy": ("envoy", ["--mode", "validate", *envoy], envoy, {}),
        "Traefik": ("traefik", ["version"], ["--configFile=traefik-static.yaml"], {}),
        "this gateway": (gateway, ["check", "--config", str(ours)], ["run", "--config", str(ours)], urls),
    }


def version(binary):
    """The first number with dots in it that the program tells of itself; Traefik has a subcommand for it."""
    for flag in ("-v", "--version", "version"):
        told = subprocess.run([binary, flag], capture_output=True, text=True)
        found = re.search(r"\d+\.\d+(\.\d+)?", told.stdout + told.stderr)
        if told.returncode == 0 and found:
            return found[0]
    return ""


def table(asked, answers, versions):
    names = [f"{peer} {versions[peer]}".strip() for peer in answers]
    rows = ["| Path | " + " | ".join(names) + " |", "|---|" + "---|" * len(answers)]
    for target in asked:
        rows.append(f"| `{target}` | " + " | ".join(answers[peer][target] for peer in answers) + " |")
    return "\n".join(rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gateway", default=str(ROOT / "target/debug/gateway"))
    arguments.add_argument("--bin", default="", help="a folder with peers' binaries, before PATH")
    arguments.add_argument("--page", help="write the tables into this page")
    options = arguments.parse_args()
    search = os.pathsep.join([options.bin, os.environ["PATH"], "/usr/sbin"])
    asked = [target for target, _ in PLAIN] + SPELLED
    servers = [upstream(name) for name in ("central", "workspace", "extension")]
    answers, versions, differ = {}, {}, False
    for peer in ("nginx", "HAProxy", "Envoy", "Traefik", "this gateway"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            ports = {8080: free_port(), **{3000 + at: server.server_port for at, server in enumerate(servers)}}
            for file in FILES.iterdir():
                (folder / file.name).write_text(with_ports(file.read_text(), ports))
            program, check, start, variables = commands(folder, ports, options.gateway)[peer]
            binary = shutil.which(program, path=search)
            if binary is None:
                print(f"{peer}: `{program}` is not installed; left out", file=sys.stderr)
                continue
            environment = {**os.environ, **variables}
            quiet = {"stdout": subprocess.DEVNULL, "cwd": folder, "env": environment}
            if subprocess.run([binary, *check], **quiet).returncode != 0:
                print(f"{peer}: its own check refuses the file", file=sys.stderr)
                differ = True
                continue
            process = subprocess.Popen([binary, *start], **quiet)
            try:
                wait_for(ports[8080], process)
                if peer == "Traefik":
                    # It listens before its routes are loaded.
                    deadline = time.monotonic() + 30
                    while ask(ports[8080], PLAIN[0][0]) == "404" and time.monotonic() < deadline:
                        time.sleep(0.05)
                answers[peer] = {target: ask(ports[8080], target) for target in asked}
                # This one is whatever is in the tree.
                versions[peer] = "" if peer == "this gateway" else version(binary)
            finally:
                process.terminate()
                process.wait()
            for target, expected in PLAIN:
                # Who answers a claim without a route is for the file to say: Traefik has an empty service.
                given = answers[peer][target]
                if given != expected and not (expected == "404" and given == "503"):
                    print(f"{peer}: {target} is answered by {given}, not {expected}", file=sys.stderr)
                    differ = True
    if len(answers) < 2:
        print("nothing to compare", file=sys.stderr)
        return 2
    report = table(asked, answers, versions)
    print(report)
    if options.page:
        page = pathlib.Path(options.page)
        before, _, rest = page.read_text().partition("<!-- asked -->\n")
        _, _, after = rest.partition("<!-- /asked -->\n")
        page.write_text(f"{before}<!-- asked -->\n{report}\n<!-- /asked -->\n{after}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
