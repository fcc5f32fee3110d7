"""The certificate that all peers show."""

import dataclasses
import pathlib
import subprocess

HOST = "edge.example"


@dataclasses.dataclass(frozen=True)
class Certificate:
    """PEM files; `both` is the certificate followed by its key, as HAProxy wants it."""

    cert: pathlib.Path
    key: pathlib.Path
    both: pathlib.Path


def make_certificate(folder: pathlib.Path) -> Certificate:
    folder.mkdir()
    cert, key, both = folder / "cert.pem", folder / "key.pem", folder / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
    words += ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1", "-out", str(cert), "-keyout", str(key)]
    subprocess.run(words, check=True, capture_output=True)
    both.write_text(cert.read_text() + key.read_text())
    return Certificate(cert, key, both)
