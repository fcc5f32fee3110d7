"""HTTP/1.1 as bytes: a client that sends targets as they are, and a relay that records what reaches an upstream."""
import re
import socket
import threading

PATIENCE = 20.0


class Broken(Exception):
    """The peer's bytes are no answer, or end before it does."""


class Peer:
    """One connection and what was read from it beyond the last message."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE)
        self.data = b""

    @classmethod
    def accepted(cls, sock):
        peer = cls.__new__(cls)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.socket, peer.data = sock, b""
        return peer

    def more(self):
        try:
            part = self.socket.recv(65536)
        except ConnectionResetError:
            part = b""
        self.data += part
        return bool(part)

    def head(self):
        """A head with its empty line; None where the peer closes instead."""
        while b"\r\n\r\n" not in self.data:
            if not self.more():
                if self.data:
                    raise Broken(f"the head ends early: {self.data[:200]!r}")
                return None
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def exactly(self, count):
        while len(self.data) < count:
            if not self.more():
                raise Broken("the body ends early")
        part, self.data = self.data[:count], self.data[count:]
        return part

    def answer(self):
        """Status, fields (names in lower case), and all bytes of an answer to GET; None where the peer closes."""
        head = self.head()
        if head is None:
            return None
        line, *rest = head.decode("latin-1").split("\r\n")
        match = re.match(r"HTTP/1\.[01] (\d{3})", line)
        if not match:
            raise Broken(f"no status line: {line!r}")
        status = int(match[1])
        fields = {}
        for field in rest:
            name, colon, value = field.partition(":")
            if colon:
                fields[name.strip().lower()] = value.strip()
        raw = head
        if fields.get("transfer-encoding", "").lower() == "chunked":
            size = 1
            while size:
                size_line = self.line()
                size = int(size_line.split(b";")[0], 16)
                raw += size_line + self.exactly(size + 2)
        elif "content-length" in fields:
            raw += self.exactly(int(fields["content-length"]))
        elif status not in (204, 304):
            while self.more():
                pass
            raw, self.data = raw + self.data, b""
            fields["connection"] = "close"
        return status, fields, raw

    def line(self):
        while b"\r\n" not in self.data:
            if not self.more():
                raise Broken("a line ends early")
        line, _, self.data = self.data.partition(b"\r\n")
        return line + b"\r\n"

    def close(self):
        self.socket.close()


class Client:
    """Asks one address again and again, on one connection as long as the peer keeps it."""

    def __init__(self, address):
        self.address, self.peer = address, None

    def get(self, target, case):
        """Status and fields of the answer; (None, {}) where the connection is closed without one."""
        request = b"GET " + target + b" HTTP/1.1\r\nHost: gateway.test\r\nX-Case: %d\r\n\r\n" % case
        fresh = self.peer is None
        try:
            if fresh:
                self.peer = Peer(self.address)
            self.peer.socket.sendall(request)
            answer = self.peer.answer()
        except (Broken, ConnectionError):
            answer = None
        if answer is None:
            self.drop()
            # A connection that was kept may have been closed meanwhile.
            return (None, {}) if fresh else self.get(target, case)
        status, fields, _ = answer
        # Bytes behind the answer would be taken for the next one.
        if fields.get("connection", "").lower() == "close" or self.peer.data:
            self.drop()
        return status, fields

    def drop(self):
        if self.peer:
            self.peer.close()
        self.peer = None


def exchanged(peer, head):
    """The answer to a request; None where the connection ends without one."""
    try:
        peer.socket.sendall(head)
        return peer.answer()
    except ConnectionError:
        return None


class Relay:
    """Stands between the gateway and a server as one family's upstream, and keeps each target that reaches it."""

    def __init__(self, family, server):
        self.family, self.server = family, server
        self.seen = {}  # case -> the targets that were received for it
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        client, server = Peer.accepted(sock), None
        try:
            while head := client.head():
                line = head.split(b"\r\n", 1)[0]
                case = int(re.search(rb"\r\nx-case: *(\d+)", head, re.I)[1])
                self.seen.setdefault(case, []).append(line[line.index(b" ") + 1 : line.rindex(b" ")])
                # The server may have closed a connection that was idle; the gateway must not be blamed for that.
                answer = server and exchanged(server, head)
                if answer is None:
                    if server:
                        server.close()
                    server = Peer(self.server)
                    answer = exchanged(server, head)
                if answer is None:
                    break
                client.socket.sendall(answer[2])
                if answer[1].get("connection", "").lower() == "close":
                    break
        except (OSError, Broken):
            pass
        finally:
            client.close()
            if server:
                server.close()

    def close(self):
        self.listener.close()
