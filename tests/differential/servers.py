"""The servers under test: each with its default settings, started with all routes, ended by its process id."""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PATIENCE = 60.0


def pattern(route):
    """The route as a regular expression, for the servers that have no templates."""
    text = "".join(
        "/" + escaped(segment["prefix"]) + ("" if segment["parameter"] is None else "[^/]+") + escaped(segment["suffix"])
        for segment in route["segments"]
    )
    return f"{text}(?:/.*)?" if route["tail"] else text or "/"


def escaped(text):
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: "\\" + match[0], text)


class Server:
    """One server on a port of its own. `version` is what it says about itself."""

    name = ""
    note = ""

    def __init__(self, routes, folder):
        self.folder = folder / type(self).__name__.lower()
        self.folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.routes_file = self.folder / "routes.json"
        self.routes_file.write_text(json.dumps(routes))
        self.version = self.name
        self.process = None
        try:
            self.start(routes)
        except BaseException:
            self.stop()
            raise

    def start(self, routes):
        self.spawn(self.command(), announced=True)

    def command(self):
        raise NotImplementedError

    def spawn(self, command, announced, **options):
        """Starts the server. One that announces itself writes `ready VERSION`; the others are there once they listen."""
        log = (self.folder / "log").open("w")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if announced else log, stderr=log, text=True, **options
        )
        if announced:
            for line in self.process.stdout:
                if line.startswith("ready "):
                    self.version = line.removeprefix("ready ").strip()
                    threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()
                    break
        self.wait()

    def wait(self):
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(self.address, 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not start:\n{(self.folder / 'log').read_text()[-2000:]}")

    @property
    def address(self):
        return "127.0.0.1", self.port

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Nginx(Server):
    name = "nginx"
    note = "one `location` a route, by regular expression"

    def start(self, routes):
        binary = shutil.which("nginx") or "/usr/sbin/nginx"
        said = subprocess.run([binary, "-v"], capture_output=True, text=True, check=True).stderr
        self.version = "nginx " + said.strip().rpartition("/")[2]
        locations = "".join(
            f'    location ~ "^{pattern(route)}$" {{ add_header X-Route "{route["name"]}"; return 200 ""; }}\n' for route in routes
        )
        scratch = "".join(f"  {kind}_temp_path {self.folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.folder / "nginx.conf").write_text(
            f"daemon off;\npid {self.folder}/pid;\nerror_log {self.folder}/error.log;\nworker_processes 1;\nevents {{}}\n"
            # Names with braces would be taken for variables of nginx only behind `$`, which no template holds.
            f"http {{\n  access_log off;\n{scratch}  server {{\n    listen 127.0.0.1:{self.port};\n"
            f"    location / {{ return 404; }}\n{locations}  }}\n}}\n"
        )
        self.spawn([binary, "-e", self.folder / "error.log", "-p", self.folder, "-c", self.folder / "nginx.conf"], announced=False)


class Express(Server):
    name = "Express"

    def command(self):
        return ["node", HERE / "node/express.mjs", self.routes_file, str(self.port)]


class Fastify(Server):
    name = "Fastify"

    def command(self):
        return ["node", HERE / "node/fastify.mjs", self.routes_file, str(self.port)]


class Starlette(Server):
    name = "Starlette"

    def command(self):
        return [HERE / "python/venv/bin/python", HERE / "python/starlette_server.py", self.routes_file, str(self.port)]


class Flask(Server):
    name = "Flask"

    def command(self):
        return [HERE / "python/venv/bin/python", HERE / "python/flask_server.py", self.routes_file, str(self.port)]


class Axum(Server):
    name = "axum"

    def command(self):
        return [REPOSITORY / "target/differential/debug/differential-axum", self.routes_file, str(self.port)]


class Tomcat(Server):
    name = "Tomcat"
    note = "one servlet, matching the path that the container hands it"
    HOME = pathlib.Path("/usr/share/tomcat10")
    DEFAULTS = pathlib.Path("/etc/tomcat10")

    def start(self, routes):
        for name in ("conf", "logs", "temp", "work", "webapps/ROOT/WEB-INF/classes"):
            (self.folder / name).mkdir(parents=True)
        for name in ("web.xml", "catalina.properties", "logging.properties", "context.xml", "tomcat-users.xml", "jaspic-providers.xml"):
            shutil.copy(self.DEFAULTS / name, self.folder / "conf" / name)
        server = (self.DEFAULTS / "server.xml").read_text()
        server = server.replace('<Server port="8005"', '<Server port="-1"')
        server = server.replace('<Connector port="8080"', f'<Connector address="127.0.0.1" port="{self.port}"')
        (self.folder / "conf/server.xml").write_text(server)
        web = self.folder / "webapps/ROOT/WEB-INF"
        # The container may map a servlet to everything; what it does before is what is tested.
        (web / "web.xml").write_text(
            '<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="6.0"><servlet><servlet-name>routes</servlet-name>'
            "<servlet-class>RouteServlet</servlet-class></servlet><servlet-mapping><servlet-name>routes</servlet-name>"
            "<url-pattern>/*</url-pattern></servlet-mapping></web-app>"
        )
        (web / "routes.tsv").write_text("".join(f"{route['name']}\t{pattern(route)}\n" for route in routes))
        api = sorted(pathlib.Path("/usr/share/java").glob("tomcat10-servlet-api*.jar"))
        subprocess.run(["javac", "-cp", str(api[0]), "-d", web / "classes", HERE / "servlet/RouteServlet.java"], check=True)
        environment = {"CATALINA_HOME": str(self.HOME), "CATALINA_BASE": str(self.folder), "PATH": "/usr/bin:/bin"}
        said = subprocess.run([self.HOME / "bin/catalina.sh", "version"], env=environment, capture_output=True, text=True).stdout
        self.version = " ".join(re.search(r"Apache (Tomcat)/(\S+)", said).groups())
        self.spawn([self.HOME / "bin/catalina.sh", "run"], announced=False, env=environment)


ALL = [Nginx, Express, Fastify, Starlette, Flask, Axum, Tomcat]
