"""That a peer decides as the table does, before anything is measured."""

import contextlib
import http.client
import ssl
import time

from certificate import HOST
from processes import Failed
from proxies import Running
from rules import Rule, forwarded_targets, refused_targets


def ask(running: Running, targets: list[str]) -> list[tuple[int, str | None]]:
    """The status of each, and the family that the upstream's answer names."""
    secured = ssl._create_unverified_context() if running.tls else None
    answers = []
    with contextlib.closing(
        http.client.HTTPSConnection("127.0.0.1", running.port, timeout=30, context=secured)
        if secured
        else http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    ) as connection:
        for target in targets:
            connection.request("GET", target, headers={"Host": HOST})
            answer = connection.getresponse()
            answer.read()
            answers.append((answer.status, answer.headers.get("X-Family")))
    return answers


def wait_until_routed(running: Running, rules: list[Rule], seconds: float = 120) -> None:
    """Some peers listen before they have read their routes."""
    target, _ = forwarded_targets(rules)[-1]
    end = time.monotonic() + seconds

    def is_routed() -> bool:
        try:
            return ask(running, [target])[0][0] == 200
        except (OSError, http.client.HTTPException):
            return False

    while not is_routed():
        if time.monotonic() > end:
            raise Failed(f"does not forward {target} after {seconds:.0f} s; its output is in {running.process.output}")
        time.sleep(0.1)


def verify(running: Running, rules: list[Rule]) -> None:
    """That the peer decides as the table does; a peer that routes otherwise does other work."""
    forwarded = forwarded_targets(rules)
    for (target, family), got in zip(forwarded, ask(running, [target for target, _ in forwarded]), strict=True):
        if got != (200, family):
            raise Failed(f"{target} is for {family}, but was answered {got}")
    refused = refused_targets(30)
    for target, got in zip(refused, ask(running, refused), strict=True):
        if got not in {(404, None), (503, None)}:
            raise Failed(f"{target} is refused, but was answered {got}")
