#!/usr/bin/env python3
"""Writes dashboards/gateway.json, the dashboard of the gateway: `python3 dashboard.py > dashboards/gateway.json`.

Rows go from the question that is asked first to the one that is asked last: is it well, who is concerned, where is the
time spent, what is full, what changed. A test compares the file with what this prints.
"""

import json

SOURCE = {"type": "prometheus", "uid": "${source}"}
# Of the replicas and families that are chosen at the top.
REPLICA = 'job="$job", instance=~"$instance"'
FAMILY = REPLICA + ', family=~"$family"'
WIDTH = 24


class Board:
    """Lays panels out from left to right and from top to bottom."""

    def __init__(self):
        self.panels, self.x, self.y, self.height = [], 0, 0, 0

    def row(self, title):
        self.next_line()
        self.add({"type": "row", "title": title, "collapsed": False, "panels": []}, WIDTH, 1)

    def next_line(self):
        if self.x:
            self.x, self.y, self.height = 0, self.y + self.height, 0

    def add(self, panel, width, height):
        if self.x + width > WIDTH:
            self.next_line()
        panel["id"] = len(self.panels) + 1
        panel["gridPos"] = {"x": self.x, "y": self.y, "w": width, "h": height}
        self.panels.append(panel)
        self.x, self.height = self.x + width, max(self.height, height)
        if self.x >= WIDTH:
            self.next_line()

    def stat(self, title, expression, *, unit="short", colours=None, words=None, text=None, width=4):
        mappings = [{"type": "value", "options": {value: {"text": word, "index": index}}}
                    for index, (value, word) in enumerate((words or {}).items())]
        self.add({
            "type": "stat", "title": title, "datasource": SOURCE,
            "targets": targets([(expression, text or "")], instant=True),
            "fieldConfig": {"defaults": {
                "unit": unit, "mappings": mappings, "color": {"mode": "thresholds"},
                "thresholds": steps(colours or [(None, "blue")]),
            }, "overrides": []},
            "options": {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "value", "graphMode": "none", "textMode": "name" if text else "auto",
            },
        }, width, 4)

    def graph(self, title, expressions, *, unit="short", help="", width=8, stacked=False, limit=None, least=0):
        defaults = {
            "unit": unit, "min": least,
            "custom": {
                "drawStyle": "line", "lineWidth": 1, "fillOpacity": 30 if stacked else 8, "showPoints": "never",
                "stacking": {"mode": "normal" if stacked else "none"},
            },
        }
        if limit is not None:
            defaults["thresholds"] = steps([(None, "green"), (limit, "red")])
            defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
        self.add({
            "type": "timeseries", "title": title, "description": help, "datasource": SOURCE,
            "targets": targets(expressions),
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
        }, width, 8)

    def table(self, title, expression, columns, *, help="", width=24):
        """One row a series; `columns` are the labels to show and their titles."""
        self.add({
            "type": "table", "title": title, "description": help, "datasource": SOURCE,
            "targets": [target | {"format": "table"} for target in targets([(expression, "")], instant=True)],
            "fieldConfig": {"defaults": {}, "overrides": []},
            "transformations": [{"id": "organize", "options": {
                "excludeByName": {"Time": True, "Value": True, "__name__": True, "job": "job" not in columns},
                "renameByName": columns, "indexByName": {name: index for index, name in enumerate(columns)},
            }}],
        }, width, 6)


def targets(expressions, instant=False):
    letters = "ABCDEFGH"
    return [{
        "refId": letters[index], "datasource": SOURCE, "expr": expression, "legendFormat": legend,
        "instant": instant, "range": not instant,
    } for index, (expression, legend) in enumerate(expressions)]


def steps(colours):
    return {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in colours]}


def rate(metric, labels, by):
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def quantile(share, metric, by):
    buckets = rate(metric + "_bucket", FAMILY, f"le, {by}" if by else "le")
    return f"histogram_quantile({share}, {buckets})"


def variable(name, label, query, multiple):
    choice = {"selected": True, "text": ["All"], "value": ["$__all"]} if multiple else {}
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": query,
        "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1,
        "multi": multiple, "includeAll": multiple, "current": choice,
    }


def board():
    b = Board()

    b.row("Is it well?")
    bad_at_zero = [(None, "red"), (1, "green")]
    bad_from_one = [(None, "green"), (1, "red")]
    b.stat("Replicas that answer", f'sum(up{{{REPLICA}}})', colours=bad_at_zero)
    b.stat("Replicas not ready", f"count(gateway_ready{{{REPLICA}}} == 0) or vector(0)", colours=bad_from_one)
    b.stat("Families not ready", f"count(count by (family) (gateway_upstream_ready{{{FAMILY}}} == 0)) or vector(0)",
           colours=bad_from_one)
    b.stat("Errors", f'sum(rate(gateway_requests_total{{{FAMILY}, status_class="5xx"}}[5m])) '
                     f"/ (sum(rate(gateway_requests_total{{{FAMILY}}}[5m])) > 0) or vector(0)",
           unit="percentunit", colours=[(None, "green"), (0.001, "orange"), (0.01, "red")])
    b.stat("Contracts in force", f"count(count by (digest) (gateway_contract_info{{{REPLICA}}}))",
           colours=[(None, "green"), (2, "red")])
    b.stat("Certificate expires in",
           f"min(gateway_tls_certificate_expiry_timestamp_seconds{{{REPLICA}}}) - time()", unit="s",
           colours=[(None, "red"), (3 * 86400, "orange"), (14 * 86400, "green")])

    b.row("Who is concerned?")
    b.graph("Requests", [(rate("gateway_requests_total", FAMILY, "family"), "{{family}}")], unit="reqps")
    b.graph("Errors (5xx)", [(rate("gateway_requests_total", FAMILY + ', status_class="5xx"', "family"), "{{family}}")],
            unit="reqps", help="The gateway's own refusals and the services' answers.")
    b.graph("Refused by the gateway",
            [(rate("gateway_refusals_total", FAMILY + ', reason!="not_found"', "reason"), "{{reason}}"),
             (rate("gateway_refusals_total", FAMILY + ', reason="not_found"', "reason"), "{{reason}}")],
            unit="reqps", help="By the code of the answer. `not_found` is what nobody owns, scanners mostly.")
    b.graph("Share of the error budget spent, 1 h", [(f'family:gateway_error_ratio:rate1h{{job="$job", family=~"$family"}}', "{{family}}")],
            unit="percentunit", limit=0.001, help="Of 0.1% of requests; see docker/prometheus/rules.")
    b.graph("Families ready", [(f"min by (family) (gateway_upstream_ready{{{FAMILY}}})", "{{family}}")],
            help="1 on all chosen replicas, 0 where one says otherwise.")
    b.graph("Endpoints", [(f"sum by (family, state) (gateway_upstream_endpoints{{{FAMILY}}})", "{{family}} {{state}}")],
            help="Summed over the replicas, each of which probes for itself.")

    b.row("Where is the time spent?")
    b.graph("Whole requests, 50th and 99th percentile",
            [(quantile(0.5, "gateway_request_duration_seconds", "family"), "{{family}} p50"),
             (quantile(0.99, "gateway_request_duration_seconds", "family"), "{{family}} p99")], unit="s")
    b.graph("Upstreams to the head of their answer, 99th percentile",
            [(quantile(0.99, "gateway_upstream_latency_seconds", "family"), "{{family}}")], unit="s")
    b.graph("The gateway's own share", [(quantile(0.5, "gateway_overhead_seconds", ""), "p50"),
                                        (quantile(0.99, "gateway_overhead_seconds", ""), "p99")], unit="s")
    b.graph("Connections to upstreams that failed", [(rate("gateway_upstream_connect_failures_total", FAMILY, "family, reason"), "{{family}} {{reason}}")],
            unit="ops")
    b.graph("Second attempts", [(rate("gateway_upstream_retries_total", FAMILY, "family, cause"), "{{family}} {{cause}}")], unit="ops")
    b.graph("Endpoints ejected", [(rate("gateway_upstream_ejections_total", FAMILY, "family"), "{{family}}")], unit="ops")

    b.row("What is full?")
    b.graph("Places in flight", [(f"max by (family) (gateway_requests_in_flight{{{FAMILY}}} / gateway_requests_in_flight_limit{{{FAMILY}}})", "{{family}}")],
            unit="percentunit", limit=0.8, help="Of the fullest replica.")
    b.graph("Waiting for a place", [(f"sum by (family) (gateway_requests_queued{{{FAMILY}}})", "{{family}}")])
    b.graph("Client connections", [(f"gateway_connections{{{REPLICA}}}", "{{instance}}"), (f"max(gateway_connections_limit{{{REPLICA}}})", "limit")])
    b.graph("CPU", [(f"rate(process_cpu_seconds_total{{{REPLICA}}}[$__rate_interval])", "{{instance}}")], unit="none",
            help="Cores.")
    b.graph("Memory", [(f"process_resident_memory_bytes{{{REPLICA}}}", "{{instance}}")], unit="bytes")
    b.graph("Descriptors", [(f"process_open_fds{{{REPLICA}}} / process_max_fds{{{REPLICA}}}", "{{instance}}")],
            unit="percentunit", limit=0.8)

    b.row("Clients")
    b.graph("TLS handshakes that failed", [(rate("gateway_tls_handshake_failures_total", REPLICA, "reason"), "{{reason}}")], unit="ops")
    b.graph("Requests that are no HTTP", [(rate("gateway_malformed_requests_total", REPLICA, "fault"), "{{fault}}"),
                                          (rate("gateway_http2_stream_errors_total", REPLICA, "reason"), "h2 stream {{reason}}"),
                                          (rate("gateway_http2_connection_errors_total", REPLICA, "reason"), "h2 connection {{reason}}")], unit="ops")
    b.graph("Bytes of bodies", [(f"sum(rate(gateway_request_body_bytes_sum{{{FAMILY}}}[$__rate_interval]))", "received"),
                                (f"sum(rate(gateway_response_body_bytes_sum{{{FAMILY}}}[$__rate_interval]))", "sent")], unit="Bps")

    b.row("What changed?")
    b.graph("Reloads", [(f"sum by (instance, result) (increase(gateway_reloads_total{{{REPLICA}}}[$__rate_interval]))", "{{instance}} {{result}}")])
    b.graph("Generation", [(f"gateway_generation{{{REPLICA}}}", "{{instance}}")])
    b.graph("Telemetry dropped", [(rate("gateway_telemetry_dropped_total", REPLICA, "instance, signal"), "{{instance}} {{signal}}")], unit="ops")
    b.table("Contracts", f"gateway_contract_info{{{REPLICA}}}", {"instance": "Replica", "digest": "Contract"}, width=14,
            help="Compare with `route-contract digest contract.toml`.")
    b.table("Versions", f"gateway_build_info{{{REPLICA}}}", {"instance": "Replica", "version": "Version"}, width=10)

    return {
        "uid": "gateway", "title": "Gateway", "tags": ["gateway"], "schemaVersion": 39, "version": 1, "editable": True,
        "time": {"from": "now-1h", "to": "now"}, "refresh": "30s", "timezone": "browser", "graphTooltip": 1,
        "links": [{"title": "Runbook", "type": "link", "url": "https://runbooks.example.com/gateway", "targetBlank": True}],
        "annotations": {"list": [{
            "name": "Reloads", "datasource": SOURCE, "enable": True, "iconColor": "blue",
            "expr": f'changes(gateway_generation{{{REPLICA}}}[1m]) > 0', "titleFormat": "New configuration on {{instance}}",
        }]},
        "templating": {"list": [
            {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus", "current": {}},
            variable("job", "Job", "label_values(gateway_build_info, job)", False),
            variable("instance", "Replica", 'label_values(gateway_build_info{job="$job"}, instance)', True),
            variable("family", "Family", 'label_values(gateway_requests_total{job="$job"}, family)', True),
        ]},
        "panels": b.panels,
    }


if __name__ == "__main__":
    print(json.dumps(board(), indent=2))
