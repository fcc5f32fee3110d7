"""A WebSocket server that sends back what it is sent: `echo.py PORT`. For short, unfragmented messages."""

import base64
import hashlib
import selectors
import socket
import sys

# RFC 6455 section 1.3.
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_key(head: bytes) -> bytes:
    key = next(line.partition(b":")[2].strip() for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
    return base64.b64encode(hashlib.sha1(key + MAGIC).digest())


def answer(received: bytes) -> tuple[bytes, bytes]:
    """The echoes of all whole frames, unmasked, and what is left over."""
    echoes = b""
    while len(received) >= 6:
        length = received[1] & 0x7F
        if len(received) < 6 + length:
            break
        mask = received[2:6]
        payload = (
            bytes(byte ^ mask[at % 4] for at, byte in enumerate(received[6 : 6 + length]))
            if any(mask)
            else received[6 : 6 + length]
        )
        echoes += bytes((received[0], length)) + payload
        received = received[6 + length :]
    return echoes, received


def main() -> None:
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
    selector.register(listener, selectors.EVENT_READ)
    # What a connection has sent and is not answered.
    waiting: dict[socket.socket, bytes] = {}
    upgraded: set[socket.socket] = set()
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(connection, selectors.EVENT_READ, connection)
                waiting[connection] = b""
                continue
            connection = key.data
            try:
                part = connection.recv(65536)
            except OSError:
                part = b""
            if not part:
                selector.unregister(connection)
                connection.close()
                del waiting[connection]
                upgraded.discard(connection)
                continue
            received = waiting[connection] + part
            if connection not in upgraded:
                head, end, received = received.partition(b"\r\n\r\n")
                if not end:
                    waiting[connection] = head
                    continue
                upgraded.add(connection)
                connection.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
                    + accept_key(head)
                    + b"\r\n\r\n"
                )
            echoes, waiting[connection] = answer(received)
            if echoes:
                connection.sendall(echoes)


if __name__ == "__main__":
    main()
