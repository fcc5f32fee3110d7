#!/usr/bin/env python3
"""Lets a real Prometheus scrape a real gateway with the rules of docker/prometheus, and asks every question of the
dashboard: `make monitoring-check` (Debian: apt-get install prometheus).

Fails where a rule cannot be evaluated, where an alert fires on a healthy gateway or none fires on one that is gone, and
where a panel stays empty that should not.

Exit codes: 0 well, 1 findings, 2 a tool is missing.
"""

import argparse
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE = 90
# Panels about what does not happen in the demo: nothing has TLS, fails, is ejected or sent again.
EMPTY = {"Certificate expires in", "TLS handshakes that failed"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


class Prometheus:
    def __init__(self, binary, folder, target):
        self.url = f"http://127.0.0.1:{free_port()}"
        config = folder / "prometheus.yml"
        shutil.copytree(ROOT / "docker/prometheus/rules", folder / "rules")
        text = (ROOT / "docker/prometheus/prometheus.yml").read_text()
        text = text.replace("gateway:9901", target).replace(": 15s", ": 1s")
        config.write_text(text)
        self.process = subprocess.Popen(
            [binary, f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=error"])

    def query(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        return fetch(f"{self.url}/api/v1/query?{query}")["data"]["result"]

    def rules(self):
        groups = fetch(f"{self.url}/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            found = condition()
        except (urllib.error.URLError, ConnectionError):
            found = None
        if found:
            return found
        time.sleep(0.5)
    sys.exit(f"monitoring-check: waited {PATIENCE} s for {what}")


def traffic(url, stop):
    paths = ["/api/v1/users/ada", "/api/v1/workspaces/w1/files/x", "/nobody",
             "/api/v1/workspaces/w1/agents/a1/runtime/ext", "/api/v1/workspaces/w1/agents/a1/runtime%2Fext"]
    while not stop.is_set():
        for path in paths:
            try:
                urllib.request.urlopen(url + path, timeout=5).read()
            except (urllib.error.URLError, ConnectionError):
                pass
        stop.wait(0.05)


def questions():
    dashboard = json.loads((ROOT / "docker/grafana/dashboards/gateway.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"].replace("$__rate_interval", "15s").replace("$job", "gateway")
            expression = re.sub(r"\$(instance|family)", ".+", expression)
            yield panel["title"], expression


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gateway", default=ROOT / "target/debug/gateway", type=pathlib.Path)
    arguments = options.parse_args()
    binary = shutil.which("prometheus")
    if binary is None:
        print("monitoring-check: NOT CHECKED: prometheus is missing (Debian: apt-get install prometheus)", file=sys.stderr)
        return 2
    demo = subprocess.Popen(
        [arguments.gateway, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    addresses = {}
    for line in demo.stdout:
        found = re.match(r" *(gateway|admin) +http://(\S+)", line)
        if found:
            addresses[found[1]] = found[2]
        if len(addresses) == 2:
            break
    findings = []
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        prometheus = Prometheus(binary, pathlib.Path(folder), addresses["admin"])
        try:
            threading.Thread(target=traffic, args=(f"http://{addresses['gateway']}", stop), daemon=True).start()
            until("samples", lambda: prometheus.query('rate(gateway_requests_total{family="central",status_class="2xx"}[5s]) > 0'))
            until("the rules", lambda: all(rule["health"] != "unknown" for rule in prometheus.rules()))
            asked = list(questions())
            for title, expression in asked:
                # Recorded series and rates need a few scrapes.
                if title not in EMPTY and not until_or_not(lambda: prometheus.query(expression)):
                    findings.append(f"the panel `{title}` is empty: {expression}")
            for rule in prometheus.rules():
                if rule["health"] != "ok":
                    findings.append(f"the rule `{rule['name']}` cannot be evaluated: {rule.get('lastError')}")
                if rule["type"] == "alerting" and rule["state"] != "inactive":
                    findings.append(f"`{rule['name']}` is {rule['state']} on a healthy gateway")
            demo.kill()
            until("an alert about a gateway that is gone", lambda: [
                rule for rule in prometheus.rules() if rule["name"] == "GatewayDown" and rule["state"] in ("pending", "firing")])
        finally:
            stop.set()
            demo.kill()
            prometheus.process.kill()
            prometheus.process.wait()
    for finding in findings:
        print(f"monitoring-check: {finding}", file=sys.stderr)
    if not findings:
        print(f"monitoring-check: well: {len(asked)} questions answered, every rule evaluated")
    return 1 if findings else 0


def until_or_not(condition, patience=20):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.5)
    return None


if __name__ == "__main__":
    sys.exit(main())
