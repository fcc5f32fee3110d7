#!/usr/bin/env python3
"""The differential test: what the gateway forwards as a family's, real servers must not take for another's.

Each server registers the routes of all profiles of a contract, and what must never be reached beside them. Some
thousands of adversarial targets go through the real gateway, all of whose families lead to that one server, each
through a relay of its own that records what arrives. For each target that the gateway forwards:

  - it arrives once, byte for byte, at the family that `route-contract classify` names;
  - the server answers with a route of a profile that owns that family, or 400, 404, 405 or a redirect;

and each target that it refuses arrives nowhere. The same targets are then sent to the servers directly, which shows
what the refused ones would have reached. Exit codes: 0 nothing is wrong, 1 something is, 2 it could not be decided.
"""
import argparse
import collections
import concurrent.futures
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

import probes
import report
import servers
import targets as adversarial
from wire import Client, Relay

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
REFUSALS = {400, 404, 405}
THREADS = 6


def route_contract(arguments, standard_input=None):
    done = subprocess.run(
        [REPOSITORY / "target/debug/route-contract", *arguments], input=standard_input, capture_output=True, check=False
    )
    if done.returncode == 2 or not done.stdout:
        sys.exit(f"route-contract {' '.join(map(str, arguments))}: {done.stderr.decode()}")
    return done.stdout


class Gateway:
    """The real gateway, all of whose families lead to relays in front of one server."""

    def __init__(self, contract, families, server, folder):
        self.relays = {family: Relay(family, server.address) for family in families}
        tables = "".join(
            f'[upstream.{name}]\nurl = "http://127.0.0.1:{relay.port}"\nready = false\n' for name, relay in self.relays.items()
        )
        config = folder / "gateway.toml"
        config.write_text(
            f'contract = "{contract}"\n[listen]\npublic = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n[log]\naccess = false\n{tables}'
        )
        self.process = subprocess.Popen(
            [REPOSITORY / "target/debug/gateway", "run", "--config", config], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        for line in self.process.stdout:
            record = json.loads(line)
            if "public" in record:
                host, _, port = record["public"].rpartition(":")
                self.address = host, int(port)
                threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()
                return
        sys.exit(f"the gateway does not start: exit code {self.process.wait()}")

    def arrived(self, case):
        return [(family, target) for family, relay in self.relays.items() for target in relay.seen.get(case, [])]

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        for relay in self.relays.values():
            relay.close()


def ask_all(address, targets):
    """The answers to all targets, in their order."""
    own = threading.local()

    def ask(numbered):
        number, target = numbered
        if not hasattr(own, "client"):
            own.client = Client(address)
        return own.client.get(target, number)

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, enumerate(targets, 1), chunksize=64))


def judge(case, target, verdict, answer, gateway, profiles, owners, counts):
    """What is wrong with one target's way through the gateway; None where nothing is."""
    status, fields = answer
    arrived = gateway.arrived(case)
    if verdict not in owners:
        counts["refused"] += 1
        if arrived:
            return f"judged {verdict}, but reached {arrived}"
        return None if status is not None and 400 <= status < 500 else f"judged {verdict}, answered {status}"
    counts["forwarded"] += 1
    if arrived != [(verdict, target)]:
        return f"must reach {verdict} once, unchanged, but reached {arrived} ({status})"
    route = fields.get("x-route")
    if route:
        counts["routed"] += 1
        if profiles[route] not in owners[verdict]:
            return f"forwarded as {verdict}, taken for `{route}`"
    elif status is not None and 300 <= status < 400:
        counts["redirected"] += 1
    elif status in REFUSALS:
        counts[status] += 1
    else:
        return f"forwarded as {verdict}, answered {status}"
    return None


def run(contract, server_types, pairs, seed, folder):
    """All servers for one contract: results by server, and everything that is wrong."""
    listing = json.loads(route_contract(["list", contract, "--format", "json"]))
    routes = adversarial.routes(listing, contract)
    targets = adversarial.targets(routes, pairs, seed)
    judged = route_contract(["classify", contract], b"".join(target + b"\n" for target in targets)).decode("latin-1").splitlines()
    verdicts = [line.split("\t", 1)[0] for line in judged]
    if len(verdicts) != len(targets):
        sys.exit(f"{len(targets)} targets, but {len(verdicts)} verdicts")
    owners = {family["name"]: set(family["profiles"]) for family in listing["families"] if family["serve"] == "forward"}
    registered = sorted(routes + probes.ROUTES, key=adversarial.specificity)
    profiles = {route["name"]: route["profile"] for route in registered}
    results, wrong, direct = [], [], {}
    for number, server_type in enumerate(server_types):
        place = folder / str(number)
        place.mkdir()
        server = server_type(registered, place)
        try:
            cells = probes.ask(Client(server.address))
            gateway = Gateway(contract, owners, server, place)
            try:
                answers = ask_all(gateway.address, targets)
                counts = collections.Counter()
                for case, (target, verdict, answer) in enumerate(zip(targets, verdicts, answers), 1):
                    fault = judge(case, target, verdict, answer, gateway, profiles, owners, counts)
                    if fault:
                        wrong.append(f"{server.version}: {target.decode('latin-1')}: {fault}")
            finally:
                gateway.stop()
            taken = [profiles.get(fields.get("x-route")) for _, fields in ask_all(server.address, targets)]
        finally:
            server.stop()
        direct[server.name] = taken
        results.append({"name": server.name, "version": server.version, "note": server.note, "cells": cells, "counts": counts, "taken": taken})
        print(
            f"{server.version}: {len(targets)} targets, {counts['forwarded']} forwarded, {counts['routed']} to a route, "
            f"{counts['redirected']} redirected, {sum('%s: ' % server.version in fault for fault in wrong)} wrong",
            flush=True,
        )
    return {"contract": contract.parent.name, "routes": len(routes), "targets": targets, "verdicts": verdicts, "owners": owners, "servers": results}, wrong


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("contracts", nargs="*", type=pathlib.Path, help="default: every config/*/contract.toml")
    options.add_argument("--only", action="append", metavar="SERVER", help="one of " + ", ".join(kind.name for kind in servers.ALL))
    options.add_argument("--pairs", type=int, default=3000, metavar="N", help="targets with two changes (default: %(default)s)")
    options.add_argument("--seed", type=int, default=1, help="of the choice among the changes (default: %(default)s)")
    options.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write the results between the marks of this page")
    arguments = options.parse_args()
    contracts = [path.resolve() for path in arguments.contracts] or sorted(REPOSITORY.glob("config/*/contract.toml"))
    chosen = [kind for kind in servers.ALL if not arguments.only or kind.name.lower() in map(str.lower, arguments.only)]
    if not contracts or not chosen:
        sys.exit("no contract, or no server of that name")
    runs, wrong = [], []
    for contract in contracts:
        print(f"{contract.parent.name}:", flush=True)
        with tempfile.TemporaryDirectory(prefix="differential-") as folder:
            done, faults = run(contract, chosen, arguments.pairs, arguments.seed, pathlib.Path(folder))
        runs.append(done)
        wrong += faults
    for fault in wrong[:200]:
        print("WRONG", fault)
    if arguments.page and not wrong:
        report.write(arguments.page, runs, datetime.date.today())
    checked = sum(len(done["targets"]) * len(done["servers"]) for done in runs)
    print(f"{checked - len(wrong)} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
