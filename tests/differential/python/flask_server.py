"""Flask under Waitress with their default settings: every route answers which one it is."""
import importlib.metadata
import json
import pathlib
import sys

import waitress
from flask import Flask, Response

METHODS = ["GET", "POST"]
app = Flask(__name__, static_folder=None)


def answer(name):
    def view(**_parameters):
        return Response(headers={"X-Route": name})

    return view


for number, route in enumerate(json.loads(pathlib.Path(sys.argv[1]).read_text())):
    path = "".join(
        f"/{segment['prefix']}{'' if segment['parameter'] is None else '<' + segment['parameter'] + '>'}{segment['suffix']}"
        for segment in route["segments"]
    )
    for form, url in enumerate([path or "/", path + "/<path:rest>"] if route["tail"] else [path or "/"]):
        app.add_url_rule(url, f"route-{number}-{form}", answer(route["name"]), methods=METHODS)

server = waitress.create_server(app, host="127.0.0.1", port=int(sys.argv[2]), threads=8)
versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("Flask", "Werkzeug", "Waitress"))
print(f"ready {versions}", flush=True)
server.run()
