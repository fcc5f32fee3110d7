#!/usr/bin/env python3
"""Checks what is under docker/ without a container engine and without a cluster.

1. hadolint on the Dockerfile, and what its build context leaves out: cargo must be able to read the workspace in it.
2. compose.yaml against the schema of the Compose specification; the files that it mounts exist, and what they name is there.
3. Every object of docker/kubernetes/ against the schemas of Kubernetes, strictly, alone and as config/agentteam's
   kustomization makes it.
4. What belongs together is equal: labels and selectors, ports, probes, the manifests of the contract.
5. The recipes of docs/ci.md against the schemas of GitHub Actions and GitLab.

Exit codes: 0 all holds, 1 something does not, 2 a tool is missing.
"""

import copy
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

import jsonpatch
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
KUBERNETES = DOCKER / "kubernetes"
# The oldest version that the objects are for: matchLabelKeys and unhealthyPodEvictionPolicy are stable or on by default.
VERSION = "1.31"
BESIDE = pathlib.Path(sys.executable).parent

faults = []


def fault(text):
    faults.append(text)
    print(f"fault: {text}", file=sys.stderr)


def expect(holds, text):
    if not holds:
        fault(text)


def tool(name):
    found = BESIDE / name
    if not found.exists():
        print(f"{name} is missing: pip install --requirement tests/containers/requirements.txt", file=sys.stderr)
        sys.exit(2)
    return str(found)


def run(*command, **options):
    ended = subprocess.run(command, capture_output=True, text=True, **options)
    expect(ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")


def objects(path):
    return [item for item in yaml.safe_load_all(path.read_text()) if item]


def dockerfile():
    run(tool("hadolint"), str(DOCKER / "Dockerfile"))
    # The context as .dockerignore leaves it: everything is out but what has a `!`.
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    expect("*" in lines, ".dockerignore must leave everything out first")
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            if line.startswith("!"):
                source, target = ROOT / line[1:], pathlib.Path(folder) / line[1:]
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        run("cargo", "metadata", "--locked", "--no-deps", "--quiet", "--format-version", "1", cwd=folder)


def compose():
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(DOCKER / "compose.yaml"))
    (document,) = objects(DOCKER / "compose.yaml")
    for name, service in document["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                expect((DOCKER / source).exists(), f"compose.yaml: {name} mounts {source}, which does not exist")
            else:
                expect(source in document["volumes"], f"compose.yaml: {name} mounts the unknown volume {source}")
        for network in service.get("networks", []):
            expect(network in document["networks"], f"compose.yaml: {name} is in the unknown network {network}")


def provisioned():
    """Grafana finds its dashboards and Prometheus, and Prometheus finds the gateway."""
    (document,) = objects(DOCKER / "compose.yaml")
    services = document["services"]
    mounted = {volume.split(":")[1] for volume in services["grafana"]["volumes"]}
    for file in sorted((DOCKER / "grafana" / "provisioning" / "dashboards").glob("*.y*ml")):
        for provider in objects(file)[0]["providers"]:
            path = provider["options"]["path"]
            expect(path in mounted, f"{file.name}: dashboards are looked for in {path}, which is not mounted")
    hosts = set(services)
    for file in sorted((DOCKER / "grafana" / "provisioning" / "datasources").glob("*.y*ml")):
        for source in objects(file)[0]["datasources"]:
            host = source["url"].split("//")[1].split(":")[0]
            expect(host in hosts, f"{file.name}: {host} is no service")
    for job in objects(DOCKER / "prometheus" / "prometheus.yml")[0]["scrape_configs"]:
        for target in (target for config in job["static_configs"] for target in config["targets"]):
            expect(target.split(":")[0] in hosts, f"prometheus.yml: {target} is no service")


def valid(item, where):
    if "monitoring.coreos.com" in item["apiVersion"]:
        # A custom resource: its schema is the operator's.
        return
    try:
        kubernetes_validate.validate(item, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        fault(f"{where}: {item['kind']} {item['metadata']['name']}: {error.message}")


def base():
    """All objects of the base, by kind and name."""
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    listed = set(kustomization["resources"])
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    expect(listed == there, f"kustomization.yaml lists {sorted(listed)}, and there is {sorted(there)}")
    found = {}
    for name in sorted(listed & there):
        for item in objects(KUBERNETES / name):
            valid(item, name)
            found[item["kind"], item["metadata"]["name"]] = item
    return found


def rendered(found, folder):
    """The base with what a deployment's kustomization adds: its ConfigMap and its patches."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found = copy.deepcopy(found)
    for generator in kustomization["configMapGenerator"]:
        data = {}
        for entry in generator["files"]:
            key, _, file = entry.rpartition("=")
            path = folder / file
            expect(path.is_file(), f"{folder.name}: {file} does not exist")
            data[key or path.name] = path.read_text()
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": data}
        found["ConfigMap", generator["name"]] = item
    for patch in kustomization["patches"]:
        key = patch["target"]["kind"], patch["target"]["name"]
        found[key] = jsonpatch.apply_patch(found[key], yaml.safe_load(patch["patch"]))
    for item in found.values():
        valid(item, folder.name)
    return found


def agreement(found):
    """What one object says about another."""
    deployment = found["Deployment", "gateway"]["spec"]
    pod = deployment["template"]
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    selectors = {
        "Deployment": deployment["selector"]["matchLabels"],
        "Service": found["Service", "gateway"]["spec"]["selector"],
        "Service gateway-admin": found["Service", "gateway-admin"]["spec"]["selector"],
        "PodDisruptionBudget": found["PodDisruptionBudget", "gateway"]["spec"]["selector"]["matchLabels"],
        "NetworkPolicy": found["NetworkPolicy", "gateway"]["spec"]["podSelector"]["matchLabels"],
    }
    for spread in pod["spec"]["topologySpreadConstraints"]:
        selectors[spread["topologyKey"]] = spread["labelSelector"]["matchLabels"]
    for what, selector in selectors.items():
        expect(selector and selector.items() <= labels.items(), f"{what} selects {selector}, the pods have {labels}")
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        expect(container[name]["httpGet"]["port"] in ports, f"{name} asks a port that the pod does not name")
    for name in ("gateway", "gateway-admin"):
        for port in found["Service", name]["spec"]["ports"]:
            expect(port["targetPort"] in ports, f"Service {name} leads to the unknown port {port['targetPort']}")
    monitor = found["ServiceMonitor", "gateway"]["spec"]
    admin = found["Service", "gateway-admin"]
    expect(
        {port["name"] for port in admin["spec"]["ports"]} >= {end["port"] for end in monitor["endpoints"]},
        "the ServiceMonitor names a port that the Service does not have",
    )
    target = found["HorizontalPodAutoscaler", "gateway"]["spec"]["scaleTargetRef"]
    expect((target["kind"], target["name"]) in found, "the autoscaler scales nothing")


def configuration(found, folder):
    """The files of the ConfigMap lie where the contract looks for them, and the gateway listens where it is asked."""
    spec = found["Deployment", "gateway"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    data = found["ConfigMap", "gateway"]["data"]
    laid = {item["path"]: data.get(item["key"]) for item in spec["volumes"][0]["configMap"]["items"]}
    expect(set(data) == {item["key"] for item in spec["volumes"][0]["configMap"]["items"]}, "a key has no path")
    contract = tomllib.loads(laid["contract.toml"])
    for name, profile in contract["profile"].items():
        for file in profile.get("routes", []):
            file = file if isinstance(file, str) else file["file"]
            expect(laid.get(file), f"{folder.name}: {file} of profile {name} is not mounted")
    settings = tomllib.loads(laid["gateway.toml"])
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for key, name in (("public", "http"), ("admin", "admin")):
        expect(settings["listen"][key] == f"0.0.0.0:{ports[name]}", f"listen.{key} is not the port {name}")
    expect(settings.get("watch") is True, "the ConfigMap is not watched")
    variables = {entry["name"] for entry in container["env"]}
    for name, upstream in settings["upstream"].items():
        variable = upstream["url"].removeprefix("${").removesuffix("}")
        expect(variable in variables, f"{variable} of upstream {name} is not set in the pod")


def recipes():
    page = (ROOT / "docs" / "ci.md").read_text()
    kinds = {"on:": "vendor.github-workflows", "image:": "vendor.gitlab-ci"}
    checked = 0
    for block in page.split("```yaml\n")[1:]:
        text = block.split("```\n")[0] if "```\n" in block else block
        for word, schema in kinds.items():
            if any(line.strip().startswith(word) for line in text.splitlines()):
                with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    file.write(text)
                    file.flush()
                    run(tool("check-jsonschema"), "--builtin-schema", schema, file.name)
                checked += 1
                break
    expect(checked == 3, f"docs/ci.md has {checked} recipes, not 3")


def main():
    dockerfile()
    recipes()
    compose()
    provisioned()
    found = base()
    agreement(found)
    for file in sorted((ROOT / "config").glob("*/kustomization.yaml")):
        configuration(rendered(found, file.parent), file.parent)
    print(f"{len(found)} objects, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
