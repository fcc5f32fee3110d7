"""Messages over WebSockets: each connection sends its next one when its last has come back."""

import base64
import os
import selectors
import socket
import time

from certificate import HOST
from generators import CONNECTIONS, Load
from processes import Failed

TARGET = "/api/v1/workspaces/w-1/daemon/ws"
PAYLOAD = b"m" * 100
# A client's frame: text, final, masked, with a mask of zeros that changes nothing.
MESSAGE = bytes((0x81, 0x80 | len(PAYLOAD))) + bytes(4) + PAYLOAD
ECHO = bytes((0x81, len(PAYLOAD))) + PAYLOAD


def exchange(port: int, seconds: float, connections: int = CONNECTIONS) -> Load:
    selector = selectors.DefaultSelector()
    clients = [connect(port) for _ in range(connections)]
    # Bytes of the current echo that have come.
    come = dict.fromkeys(clients, 0)
    for client in clients:
        selector.register(client, selectors.EVENT_READ, client)
        client.sendall(MESSAGE)
    count, start = 0, time.monotonic()
    end = start + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(1):
            client = key.data
            part = client.recv(len(ECHO))
            if not part:
                raise Failed(f"a WebSocket was closed after {count} messages")
            come[client] += len(part)
            if come[client] >= len(ECHO):
                come[client] -= len(ECHO)
                count += 1
                client.sendall(MESSAGE)
    elapsed = time.monotonic() - start
    for client in clients:
        client.close()
    return Load(count, elapsed)


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    client.sendall(
        f"GET {TARGET} HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = client.recv(1)
        if not part:
            break
        head += part
    if not head.startswith(b"HTTP/1.1 101"):
        raise Failed(f"no WebSocket: {head[:100]!r}")
    return client
