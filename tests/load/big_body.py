#!/usr/bin/env python3
"""Sends large bodies through the real gateway, up and down, and watches what they cost it in memory.

    tests/load/big_body.py [--gateway PATH] [--size MIB] [--grow MIB]

An upload and a download of --size MiB over HTTP/1.1, with a length and in chunks. The gateway's peak memory (VmHWM)
after them may be at most --grow MiB over what it was before; a slow reader at either end must not change that. Exit
code 0 when it holds, 1 when not, 2 when it could not be found out.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20
PART = bytes(256 * 1024)
CONTRACT = 'version = 1\n[[family]]\nname = "whole"\nclaims = ["/**"]\n'
CONFIGURATION = """contract = "contract.toml"
[listen]
public = "127.0.0.1:0"
admin  = "127.0.0.1:0"
[limits]
body = "8GiB"
[log]
access = false
[upstream.whole]
url   = "http://127.0.0.1:{port}"
ready = false
"""


def peak(pid):
    """The peak resident memory of a process, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM")


def read_head(connection):
    """A head and what came behind it."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        if not part:
            raise OSError("closed inside a head")
        received += part
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def count_body(connection, head, rest, slow):
    """Reads a body to its end and counts its bytes on the wire."""
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), None)
    total, tail = len(rest), rest[-5:]
    while total != length and not (length is None and tail == b"0\r\n\r\n"):
        part = connection.recv(MIB)
        if not part:
            raise OSError(f"closed inside a body, after {total} bytes")
        total += len(part)
        tail = (tail + part)[-5:]
        if slow and total < 64 * MIB:
            time.sleep(0.005)
    return total


def write_body(connection, size, chunked):
    for _ in range(size // len(PART)):
        connection.sendall(b"%x\r\n" % len(PART) + PART + b"\r\n" if chunked else PART)
    if chunked:
        connection.sendall(b"0\r\n\r\n")


def upstream(listener, size):
    """Takes any body, and answers a GET with one."""
    def serve(connection):
        with connection:
            while True:
                try:
                    head, rest = read_head(connection)
                except OSError:
                    return
                if head.startswith(b"GET"):
                    chunked = b"chunked" in head.split(b" ")[1]
                    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % size
                    connection.sendall(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n")
                    write_body(connection, size, chunked)
                else:
                    taken = count_body(connection, head, rest, slow=True)
                    text = b"%d" % taken
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def transfer(address, up, chunked, size):
    with socket.create_connection(address) as connection:
        if up:
            framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
            connection.sendall(f"PUT /up HTTP/1.1\r\nHost: big.test\r\n{framing}\r\n\r\n".encode())
            write_body(connection, size, chunked)
            head, rest = read_head(connection)
            count_body(connection, head, rest, slow=False)
            return head.startswith(b"HTTP/1.1 200")
        name = "chunked" if chunked else "plain"
        connection.sendall(f"GET /{name} HTTP/1.1\r\nHost: big.test\r\n\r\n".encode())
        head, rest = read_head(connection)
        return head.startswith(b"HTTP/1.1 200") and count_body(connection, head, rest, slow=True) >= size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gateway", type=pathlib.Path, default=REPOSITORY / "target/release/gateway")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--grow", type=int, default=8)
    options = parser.parse_args()
    if not options.gateway.is_file():
        print(f"no gateway at {options.gateway}: build it with `cargo build --release --package gateway`", file=sys.stderr)
        return 2
    listener = socket.create_server(("127.0.0.1", 0))
    size = options.size * MIB
    threading.Thread(target=upstream, args=(listener, size), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "contract.toml").write_text(CONTRACT)
        (folder / "gateway.toml").write_text(CONFIGURATION.format(port=listener.getsockname()[1]))
        words = [options.gateway.resolve(), "run", "--config", folder / "gateway.toml"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ) as gateway:
            try:
                # Warnings about the descriptors that there are may stand before it.
                records = (json.loads(line) for line in gateway.stdout)
                listening = next(record for record in records if "public" in record)
                host, port = listening["public"].rsplit(":", 1)
                address = (host, int(port))
                threading.Thread(target=lambda: [None for _ in gateway.stdout], daemon=True).start()
                # What the first request of all costs is no part of a body's cost.
                transfer(address, True, False, len(PART))
                before, worst = peak(gateway.pid), 0
                for up, chunked in ((True, False), (True, True), (False, False), (False, True)):
                    start = time.monotonic()
                    is_whole = transfer(address, up, chunked, size)
                    grown = peak(gateway.pid) - before
                    worst = max(worst, grown)
                    name = f"{'upload' if up else 'download'} of {options.size} MiB, {'in chunks' if chunked else 'with a length'}"
                    print(f"{name}: {'whole' if is_whole else 'NOT WHOLE'}, {time.monotonic() - start:.1f} s, peak +{grown / MIB:.1f} MiB")
                    if not is_whole:
                        return 1
                print(f"idle {before / MIB:.1f} MiB, peak +{worst / MIB:.1f} MiB, allowed +{options.grow} MiB")
                return 0 if worst < options.grow * MIB else 1
            finally:
                gateway.terminate()
                gateway.wait()


if __name__ == "__main__":
    sys.exit(main())
