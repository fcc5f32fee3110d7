"""Starlette under Uvicorn with their default settings: every route answers which one it is."""
import json
import pathlib
import sys

import starlette
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

METHODS = ["GET", "POST"]


def answer(name):
    async def endpoint(_request):
        return Response(headers={"X-Route": name})

    return endpoint


def routes(described):
    for route in described:
        path = "".join(
            f"/{segment['prefix']}{'' if segment['parameter'] is None else '{' + segment['parameter'] + '}'}{segment['suffix']}"
            for segment in route["segments"]
        )
        for url in [path or "/", path + "/{rest:path}"] if route["tail"] else [path or "/"]:
            yield Route(url, answer(route["name"]), methods=METHODS)


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        print(f"ready Starlette {starlette.__version__}, Uvicorn {uvicorn.__version__}", flush=True)


app = Starlette(routes=list(routes(json.loads(pathlib.Path(sys.argv[1]).read_text()))))
Server(uvicorn.Config(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=False, log_level="warning")).run()
