"""Connections themselves: new TLS ones with whole handshakes, and plain ones that stay idle."""

import concurrent.futures
import http.client
import socket
import ssl
import time

from certificate import HOST
from generators import HEADERS, Load
from processes import Failed

THREADS = 8


def request(target: str, close: bool = False) -> bytes:
    lines = [f"GET {target} HTTP/1.1", f"Host: {HOST}", *HEADERS] + (["Connection: close"] if close else [])
    return "\r\n".join([*lines, "", ""]).encode()


def handshakes(port: int, target: str, seconds: float) -> Load:
    """TLS 1.3 connections without resumption, each for one request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    asked = request(target, close=True)
    start = time.monotonic()
    end = start + seconds

    def connect_until_end() -> int:
        count = 0
        while time.monotonic() < end:
            plain = socket.create_connection(("127.0.0.1", port), timeout=10)
            with plain, context.wrap_socket(plain, server_hostname=HOST) as secured:
                secured.sendall(asked)
                head = secured.recv(4096)
                if not head.startswith(b"HTTP/1.1 200"):
                    raise Failed(f"a new connection was answered {head[:40]!r}")
                count += 1
        return count

    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        counts = list(pool.map(lambda _: connect_until_end(), range(THREADS)))
    return Load(sum(counts), time.monotonic() - start)


def open_idle(port: int, target: str, count: int) -> list[http.client.HTTPConnection]:
    """Connections that have had one answer each and are kept."""
    opened = []
    for _ in range(count):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", target, headers={"Host": HOST})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise Failed(f"an idle connection was answered {answer.status}")
        opened.append(connection)
    return opened
