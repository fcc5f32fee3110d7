"""The routing table that every peer is given, and the targets that are asked of it.

It has the shape of the reference contract: a parameter before the literal that decides, claims whose rest is refused,
prefixes, and a generic workspace rule at the end that would swallow them all. The first rule that matches decides.
"""

import dataclasses
import itertools
import typing

Family = typing.Literal["central", "workspace", "extension"]
FAMILIES: tuple[Family, ...] = ("central", "workspace", "extension")

WORKSPACE = "/api/v1/workspaces/{workspace}"
RUNTIME = WORKSPACE + "/agents/{agent}/runtime"

# Regular expressions for one segment, in what PCRE, RE2 and Go have in common.
SEGMENTS = {"any": "[^/]+", "kebab": "[a-z0-9]+(?:-[a-z0-9]+)*"}


@dataclasses.dataclass(frozen=True)
class Rule:
    """Paths of one template go to `family`; where it is None, they are refused with 404."""

    template: str
    family: Family | None

    @property
    def is_subtree(self) -> bool:
        return self.template.endswith("/**")

    @property
    def stem(self) -> str:
        """The template without its `/**`."""
        return self.template.removesuffix("/**")

    @property
    def is_prefix(self) -> bool:
        """Whether a peer can tell it by a literal prefix."""
        return self.is_subtree and "{" not in self.template

    def expression(self, rest: str = "(?:/.*)?") -> str:
        """The rule as a regular expression over the whole path; `rest` is what may follow the stem of a subtree."""
        segments = []
        for segment in self.stem.split("/"):
            kind = "kebab" if segment.endswith(":kebab}") else "any"
            segments.append(SEGMENTS[kind] if segment.startswith("{") else segment)
        return "/".join(segments) + (rest if self.is_subtree else "")

    def target(self, number: int) -> str:
        """A path of the rule; other numbers fill the parameters otherwise."""
        segments = [
            f"{segment.strip('{}').partition(':')[0]}-{number}" if segment.startswith("{") else segment
            for segment in self.stem.split("/")
        ]
        return "/".join(segments) + (f"/items/{number}" if self.is_subtree else "")


def table(count: int) -> list[Rule]:
    """A table of `count` rules, at least five."""
    first = [
        Rule("/api/internal/**", None),
        Rule(RUNTIME + "/ext/{domain:kebab}", "extension"),
        Rule(RUNTIME + "/ext/**", None),
        Rule("/api/v1/users/**", "central"),
    ]
    last = Rule(WORKSPACE + "/**", "workspace")
    return first + list(itertools.islice(services(), count - len(first) - 1)) + [last]


def services() -> typing.Iterator[Rule]:
    """Four rules a service: two routes of an agent's, the rest of their claim, and a prefix."""
    for number in itertools.count(1):
        name = f"service-{number:04}"
        yield Rule(f"{RUNTIME}/{name}", "extension")
        yield Rule(f"{RUNTIME}/{name}/{{action:kebab}}", "extension")
        yield Rule(f"{RUNTIME}/{name}/**", None)
        yield Rule(f"/api/v1/{name}/**", "central")


def forwarded_targets(rules: list[Rule], count: int = 240) -> list[tuple[str, Family]]:
    """`count` different targets spread evenly over the rules that forward, with the family that must receive each."""
    forwarding = [(rule, rule.family) for rule in rules if rule.family is not None]
    # More rules than targets: every n-th is asked, so that the mean place in the table is the middle.
    step = max(1, len(forwarding) // count)
    picked = itertools.islice(itertools.cycle(forwarding[::step]), count)
    return [(rule.target(number), family) for number, (rule, family) in enumerate(picked)]


def refused_targets(count: int = 240) -> list[str]:
    """Targets that nobody may reach: internal ones, the rest of a claim, and paths that no rule knows."""
    shapes = ["/api/internal/jobs/{}", RUNTIME.format(workspace="w-{0}", agent="a-{0}") + "/ext/github/unknown/{0}", "/nowhere/{}"]
    return [shapes[number % len(shapes)].format(number) for number in range(count)]
