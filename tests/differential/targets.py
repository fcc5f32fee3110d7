"""The routes that the servers register, and adversarial targets made from them."""
import itertools
import random
import re

# A segment of a template: text, perhaps a parameter, text.
SEGMENT = re.compile(r"(?P<prefix>[^{}]*)(?:\{(?P<parameter>[^{}:]*)(?::[^{}]*)?\}(?P<suffix>[^{}]*))?\Z")

# What a client may write in a segment, most of which some server reads as something else.
INSIDE = [
    "%2F", "%2f", "%252F", "%5C", "%255c", "%2e", "%2E%2e", "%252e", ";x", ";x=1", "%3Bx", "%253Bx", "%3F", "%23",
    "%253F", "%20", "%C3%A9", "%25", "%2561", ".", "..", "...", "~", "@", ":", "+", "!", "$&'()*,=", "%EF%BC%8F",
    "%E2%84%AA", "%C5%BF", "%00", "%0a", "%c0%af", "%zz", "\\", "#",
]
# What a client may write in place of one slash.
SLASHES = ["//", "/./", "/%2e/", "/%2E/", "/.;x/", "%2F", "%2f", "%252F", "%5C", "\\", ";/", "/;/", "/x/../", "/x/%2e%2e/",
           "/x/..;y/", "/x%2F..%2F", "/x/.%2e/", "/x/%252e%252e/", "/%2F", "///", "/%5C"]
# What may follow a path.
ENDS = ["/", "//", "/.", "/..", "/%2e%2e", ";x", ";/", "%2F", "%5C", "%3Fx", "%23x", "%00", "?x=/", "?..%2f", "#x", "%20",
        "/;x", "/%2F", ".", "%2e", "%252F", "/x", "/x/..", "/..;/", "%253Fx", "\\"]


def described(template, name):
    """A template as the servers take it: parameters named by their place, kinds left out."""
    tail = template.endswith("/**")
    texts = template.removesuffix("/**").split("/")[1:]
    if texts == [""]:
        texts = []
    segments = []
    for number, text in enumerate(texts):
        match = SEGMENT.match(text)
        if not match:
            raise ValueError(f"a segment that no server takes: {template}")
        parameter = None if match["parameter"] is None else f"p{number}"
        segments.append({"prefix": match["prefix"], "parameter": parameter, "suffix": match["suffix"] or ""})
    return {"name": name, "template": template, "segments": segments, "tail": tail}


def specificity(route):
    """Literal before parameter before tail, for servers that take the first route that fits."""
    return [(segment["parameter"] is not None, -len(segment["prefix"] + segment["suffix"])) for segment in route["segments"]] + [
        (True, 1) if route["tail"] else (False, 0)
    ]


def routes(listing, contract_name):
    """All routes of all plain profiles, and beside them what must never be reached: each with a profile's name."""
    found, shapes = [], set()

    def add(profile, template):
        route = described(template, f"{profile} {template}")
        shape = re.sub(r"\{[^{}]*\}", "{}", template)
        if shape not in shapes:
            shapes.add(shape)
            found.append(route | {"profile": profile})

    for profile in listing["profiles"]:
        if profile["aggregate"] is None:
            for route in profile["routes"]:
                add(profile["name"], route["path"])
    for template in listing["common"]:
        add("(common)", template)
    for family in listing["families"]:
        if family["serve"] == "never":
            for template in family["claims"]:
                add("(never)", template)
    for template in listing["retired"]:
        add("(retired)", template)
    if not found:
        raise ValueError(f"{contract_name} has no routes")
    return sorted(found, key=specificity)


def base_paths(route):
    """Plain paths of a route."""
    path = "".join(
        "/" + segment["prefix"] + ("" if segment["parameter"] is None else f"v{number}") + segment["suffix"]
        for number, segment in enumerate(route["segments"])
    )
    if route["tail"]:
        return [path + "/leaf", path + "/deep/leaf", path or "/"]
    return [path or "/"]


def edits(path, choice):
    """Ways to change one path in one place, each as (place, length, text)."""
    for match in re.finditer("/", path):
        for slash in SLASHES:
            yield match.start(), 1, slash
    for match in re.finditer("[^/]+", path):
        start, end = match.span()
        text = match[0]
        for inside in INSIDE:
            yield choice.choice([start, (start + end) // 2, end]), 0, inside
        yield start, len(text), text.upper()
        yield start, len(text), text.capitalize()
        yield start, 1, f"%{ord(text[0]):02x}"
        yield start, 1, f"%25{ord(text[0]):02X}"
        yield end - 1, 1, f"%{ord(text[-1]):02X}"
        yield start, len(text), "".join(f"%{ord(letter):02x}" for letter in text)
        yield start, len(text), "01HV5QX9ZK3J8W2M4N6P7R8S9T"
        yield start, len(text), "7e57ab1e-0000-4000-8000-00000000c0de"
    for end in ENDS:
        yield len(path), 0, end


def edited(path, *changes):
    """The path with changes in places that do not overlap; None where they do."""
    changes = sorted(changes, reverse=True)
    for (later, _, _), (earlier, length, _) in itertools.pairwise(changes):
        if earlier + length > later:
            return None
    for place, length, text in changes:
        path = path[:place] + text + path[place + length :]
    return path


def climbs(path, other):
    """From below one path to another one."""
    levels = path.count("/")
    for dots in ("/..", "/%2e%2e", "/.%2E", "/..;x", "%2F..", "%5C..", "/%252e%252e", "//.."):
        yield path + dots * levels + other
        yield path + dots * levels + "%2F" + other[1:]
        first = "/" + path.split("/")[1]
        yield first + dots + other


def targets(routes, pairs, seed):
    """All single changes of all routes, climbs between routes, and `pairs` changes two at a time."""
    choice = random.Random(seed)
    bases = [path for route in routes for path in base_paths(route)]
    found = dict.fromkeys(bases)
    for path in bases:
        found.update(dict.fromkeys(edited(path, change) for change in edits(path, choice)))
        for other in bases:
            if other != path:
                found.update(dict.fromkeys(choice.sample(list(climbs(path, other)), 2)))
    singles = len(found)
    while len(found) < singles + pairs:
        path = choice.choice(bases)
        found[edited(path, *choice.sample(list(edits(path, choice)), 2))] = None
        found.pop(None, None)
    return [target.encode() for target in found if target]
