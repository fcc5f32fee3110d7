//! The pages of the rules: what `route-contract explain CODE` prints and `docs/rules.md` is made of.

use std::fmt;

/// What a person wants to know about a code.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The stable code.
    pub code: &'static str,
    /// A short name.
    pub name: &'static str,
    /// How much a finding weighs.
    pub severity: &'static str,
    /// What it says.
    pub what: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What trips it.
    pub example: &'static str,
    /// How to mend it.
    pub mend: &'static str,
}

/// The page of a code; letters in either case.
pub fn page(code: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.code.eq_ignore_ascii_case(code))
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {} {} ({})\n", self.code, self.name, self.severity)?;
        writeln!(f, "{}\n", self.what)?;
        writeln!(f, "**Why it matters.** {}\n", self.why)?;
        writeln!(f, "**Example.** {}\n", self.example)?;
        writeln!(f, "**How to mend it.** {}", self.mend)
    }
}

/// All pages as one document: what `docs/rules.md` holds.
pub fn markdown() -> String {
    let mut text =
        "# The rules of `route-contract check`\n\nMade of the pages that `route-contract explain CODE` prints; \
                    `route-contract rules --markdown` writes this file.\n"
            .to_owned();
    let group = |page: &Page| match page.code.get(..4) {
        Some("RC01") => "RC01: files",
        Some("RC02") => "RC02: ownership",
        Some("RC03") => "RC03: fail closed",
        Some("RC04") => "RC04: order",
        Some("RC05") => "RC05: readings",
        Some("RC06") => "RC06: vacuity",
        Some("RC07") => "RC07: the reviewed contract",
        _ => "Other rules",
    };
    let mut last = "";
    for page in PAGES {
        if group(page) != last {
            last = group(page);
            text.push_str(&format!("\n## {last}\n"));
        }
        text.push_str(&format!("\n##{page}"));
    }
    text
}

/// All pages, in the order of their codes.
pub const PAGES: &[Page] = &[
    Page {
        code: "RC0101",
        name: "unreadable-file",
        severity: "error",
        what: "A file that the contract names, or the contract itself, cannot be opened, is not UTF-8, or is larger than 64 MiB.",
        why: "What was not read was not compared. A check that went on without it would be clean for the wrong reason.",
        example: "`[profile.extension] routes = [\"profiles/extention.toml\"]`, and there is no such file.",
        mend: "Correct the path; it is taken from the folder of the contract file.",
    },
    Page {
        code: "RC0102",
        name: "syntax",
        severity: "error",
        what: "A file is not TOML 1.1, JSON or YAML 1.2. Keys that stand twice in one table are among these faults.",
        why: "A reader that repairs a file in its own way decides who owns a path.",
        example: "`claims = [\"/a\"` without the closing bracket.",
        mend: "Mend the text at the place that is shown.",
    },
    Page {
        code: "RC0103",
        name: "unknown-key",
        severity: "error",
        what: "A table has a key that the contract language does not have.",
        why: "A misspelt key is a rule that nobody applies.",
        example: "`clams = [\"/api/**\"]`",
        mend: "Take the key that is suggested, or remove it.",
    },
    Page {
        code: "RC0104",
        name: "missing-key",
        severity: "error",
        what: "A table lacks a key that it needs.",
        why: "There is no default that would be safe: a family without claims owns nothing, a profile without `owns` serves nobody.",
        example: "A `[[family]]` without `claims`.",
        mend: "Add the key.",
    },
    Page {
        code: "RC0105",
        name: "invalid-value",
        severity: "error",
        what: "A value has the wrong type, is out of range, or cannot name what it names.",
        why: "A value that is half understood is worse than none.",
        example: "`version = 2`, or `serve = \"maybe\"`.",
        mend: "Write a value of the form that the message names.",
    },
    Page {
        code: "RC0106",
        name: "duplicate",
        severity: "error",
        what: "Two things stand where one is meant: a family declared twice, a template claimed or listed twice in one family, a route registered twice by one profile.",
        why: "The last one would win silently, and the change of an owner would look like no change at all.",
        example: "Two `[[family]]` tables with `name = \"central\"`.",
        mend: "Keep one of the two places that are shown.",
    },
    Page {
        code: "RC0107",
        name: "template",
        severity: "error",
        what: "A path cannot be said in the template grammar.",
        why: "A route that is skipped because it is odd is a route that is not proved.",
        example: "`/files/{a}{b}`, `/a//b`, `/a%20b`.",
        mend: "Write it in the grammar, or change the route. The grammar is in docs/contract.md; how other tools' paths are translated, and how to leave one out, in docs/import.md.",
    },
    Page {
        code: "RC0108",
        name: "unknown-name",
        severity: "error",
        what: "A kind, a family or a profile is named that does not exist.",
        why: "A typo in `owns` would leave a family without a profile.",
        example: "`owns = [\"extensions\"]` where the family is called `extension`.",
        mend: "Take the name that is suggested, or declare what is named.",
    },
    Page {
        code: "RC0109",
        name: "limit",
        severity: "error",
        what: "A contract has more families or templates than the program takes.",
        why: "Limits keep the time and the memory of a check bounded, whatever the file holds.",
        example: "600,000 templates.",
        mend: "Split the deployment, or claim subtrees instead of single paths.",
    },
    Page {
        code: "RC0110",
        name: "too-many-overlaps",
        severity: "error",
        what: "The templates overlap in so many ways that the classes of paths cannot be counted in bounded memory.",
        why: "What cannot be decided must not be guessed.",
        example: "Dozens of templates with parameters in different places and literals in all others.",
        mend: "Give overlapping parameters a kind, or a literal beside them.",
    },
    Page {
        code: "RC0201",
        name: "router-conflict",
        severity: "error",
        what: "One profile registers two routes that its router cannot hold together.",
        why: "The server would refuse to start, or would serve one of the two.",
        example: "`/a/{x}/b` beside `/a/**` in one profile.",
        mend: "Make one of the two routes narrower.",
    },
    Page {
        code: "RC0202",
        name: "misplaced-route",
        severity: "error",
        what: "None of the paths of a profile's route reaches a family that the profile owns.",
        why: "The profile registers what the gateway never sends to it: either the route stands in the wrong profile, or the contract sends its requests to the wrong one.",
        example: "The workspace profile registers `/api/v1/workspaces/{w}/agents/{a}/runtime/ext`, which belongs to family `extension`.",
        mend: "Remove the route from the profile, or change the claim that takes it.",
    },
    Page {
        code: "RC0203",
        name: "partly-elsewhere",
        severity: "warning",
        what: "Some paths of a profile's route go to a family of another profile.",
        why: "Usual for a generic route below which another family claims a part; but those requests never arrive, and the server may not know it.",
        example: "`/api/v1/workspaces/{w}/**` of the workspace profile covers the extension's subtree.",
        mend: "Nothing, where it is meant. Else narrow the route.",
    },
    Page {
        code: "RC0204",
        name: "partly-refused",
        severity: "note",
        what: "Some paths of a profile's route are refused by the gateway.",
        why: "A kind in the contract narrows what the server would take: such requests are answered 404 at the edge.",
        example: "The server takes any `{domain}`, the contract only `{domain:kebab}`.",
        mend: "Nothing, where it is meant.",
    },
    Page {
        code: "RC0205",
        name: "two-profiles",
        severity: "error",
        what: "Two plain profiles register one path, with one method or with two.",
        why: "A path has one owner, whatever the method: the gateway sends all its requests to one of the two.",
        example: "`GET /api/v1/apps` in central and `POST /api/v1/apps` in workspace.",
        mend: "Keep all methods of a path in one profile.",
    },
    Page {
        code: "RC0206",
        name: "aggregate-lacks-route",
        severity: "error",
        what: "An aggregate does not register a route of one of its parts.",
        why: "The monolith serves everything: what works in the split deployment must work there.",
        example: "A route of `extension.toml` that is missing from `all.toml`.",
        mend: "Register it in the aggregate.",
    },
    Page {
        code: "RC0207",
        name: "aggregate-adds-route",
        severity: "error",
        what: "An aggregate registers a route that none of its parts has.",
        why: "It would work in the monolith alone, and fail when the deployment is split.",
        example: "A debug route in `all.toml`.",
        mend: "Give the route to the profile that owns its path, or remove it.",
    },
    Page {
        code: "RC0208",
        name: "profile-outside-aggregate",
        severity: "error",
        what: "There is an aggregate, and a plain profile is part of none.",
        why: "The monolith would lack a whole profile.",
        example: "`aggregate = [\"central\", \"workspace\"]` beside a profile `extension`.",
        mend: "List the profile under `aggregate`.",
    },
    Page {
        code: "RC0209",
        name: "unserved-route",
        severity: "error",
        what: "A forwarded family lists a route that no profile which owns the family registers.",
        why: "The gateway forwards a path to a server that answers 404.",
        example: "A family's route that was renamed in the profile and not in the contract.",
        mend: "Register it in the profile, or remove it from the family.",
    },
    Page {
        code: "RC0210",
        name: "partly-unserved",
        severity: "warning",
        what: "Some paths of a route that a family lists, which does not end in `/**`, are registered by no profile that owns the family.",
        why: "The gateway forwards them to a server that answers 404: the contract admits more than there is.",
        example: "The family lists `.../ext/{domain}`, the server takes `{domain:kebab}` alone.",
        mend: "Narrow the family's route to what the profile registers, usually by the kind of a parameter.",
    },
    Page {
        code: "RC0211",
        name: "partly-unclaimed",
        severity: "warning",
        what: "Some paths of a profile's route are claimed by no family.",
        why: "The server answers them and the gateway refuses them. Where a kind narrows a route on purpose, its family claims the rest too.",
        example: "The profile registers `/assets/**`, and the family's claim was cut to `/assets`.",
        mend: "Widen the claim to all paths of the route, or narrow the route.",
    },
    Page {
        code: "RC0301",
        name: "falls-through",
        severity: "error",
        what: "A path that lies in a claim and is none of its family's routes is forwarded.",
        why: "Fall-through from a narrow family to a broad one opens what was meant to be closed.",
        example: "`runtime/ext/github/unknown` reaching the workspace.",
        mend: "This is a fault of the program: report it with the witness.",
    },
    Page {
        code: "RC0302",
        name: "route-outside-claim",
        severity: "error",
        what: "Some paths of a route that a family lists are not covered by the family's claims.",
        why: "What is not claimed falls to a later, broader family, or to nobody.",
        example: "The claim is cut to `.../runtime/ext`, and `.../runtime/ext/{domain}` is listed.",
        mend: "Widen the claim, usually with a final `/**`.",
    },
    Page {
        code: "RC0303",
        name: "retired-path",
        severity: "error",
        what: "A retired path is forwarded by a family or registered by a profile.",
        why: "Old paths come back by merge and by copy. The contract remembers that they are dead.",
        example: "`retired = [\"/api/internal/ext/**\"]`, and a profile registers `/api/internal/ext`.",
        mend: "Remove the route, or narrow the claim that takes the path.",
    },
    Page {
        code: "RC0304",
        name: "common-route-forwarded",
        severity: "error",
        what: "A common route, such as `/healthz` or `/metrics` of a profile, is forwarded by a family.",
        why: "Health and observability of a server are not for the outside.",
        example: "A family that claims `/**`.",
        mend: "Narrow the claim.",
    },
    Page {
        code: "RC0305",
        name: "claims-everything",
        severity: "warning",
        what: "A family forwards `/**`: nothing is unknown any more.",
        why: "Every path that was forgotten reaches that family's server.",
        example: "`claims = [\"/**\"]` without `routes`.",
        mend: "Claim what the family serves, or list its routes.",
    },
    Page {
        code: "RC0306",
        name: "wider-than-served",
        severity: "warning",
        what: "A family forwards all of a claim, and its profiles register nothing in it, or only its own path, or only paths below one literal.",
        why: "What is forwarded and not registered reaches a server that nobody meant to expose there. A claim that is no wider than what is served fails closed.",
        example: "`claims = [\"/login/**\"]`, and only `/login` is registered.",
        mend: "Narrow the claim as the help says, or list the family's `routes`.",
    },
    Page {
        code: "RC0401",
        name: "unreachable-template",
        severity: "error",
        what: "A claim or a listed route decides about no path: earlier families take all of its paths.",
        why: "The order is wrong, or the template is dead. In both cases somebody believes something that is not so.",
        example: "Family `extension` below family `workspace`, whose claim covers it.",
        mend: "Move the family up, or remove the template.",
    },
    Page {
        code: "RC0402",
        name: "code-disagrees",
        severity: "error",
        what: "The proof, the compiled matcher and the ordered scan differ on a path.",
        why: "The gateway would not do what was proved.",
        example: "None is known.",
        mend: "This is a fault of the program: report it with the witness.",
    },
    Page {
        code: "RC0403",
        name: "router-disagrees",
        severity: "error",
        what: "A profile's router answers a path that none of its routes matches, or misses one that a route matches.",
        why: "Routers resolve overlaps in their own way: some do not come back from a literal that led nowhere.",
        example: "`/a/{x:int}` and `/a/{y:kebab}` in one place of one router.",
        mend: "Make one of the overlapping routes narrower.",
    },
    Page {
        code: "RC0501",
        name: "ambiguous-route",
        severity: "error",
        what: "A profile's route is refused in its plain form, because another reading of its path has another owner.",
        why: "Nobody could ever reach it.",
        example: "A route `/Api/users` beside a family that claims `/api/**`: a server that folds case takes one for the other.",
        mend: "Rename one of the two, or give both to one family.",
    },
    Page {
        code: "RC0502",
        name: "encoded-slash",
        severity: "note",
        what: "Lists, for each family, the parameters in which an encoded slash (`%2F`) is forwarded.",
        why: "An encoded slash is part of a name for one server and a separator for another. It is let through only where both readings have the same owner.",
        example: "`/api/v1/workspaces/{workspace}/files/a%2Fb.txt`",
        mend: "Nothing, where the server takes such names; `encoded_slash = \"refuse\"` in the family, where it does not.",
    },
    Page {
        code: "RC0503",
        name: "ambiguous-paths",
        severity: "warning",
        what: "A family owns paths that are refused as ambiguous in their plain form, since another reading of them has another owner.",
        why: "Nobody can ever reach them. Mostly two families share a path and what is below it, and the form with a trailing slash belongs to both.",
        example: "Family `central` claims `/api/v1/workspaces`, and family `workspace` claims `/api/v1/workspaces/**`: `/api/v1/workspaces/` is the one's or the other's.",
        mend: "Start the wider claim one segment below, as `/api/v1/workspaces/{workspace}/**`.",
    },
    Page {
        code: "RC0601",
        name: "empty-profile",
        severity: "error",
        what: "A profile registers no route.",
        why: "An empty manifest is usually one that could not be written; everything compared with it would be clean.",
        example: "A generator that failed and left an empty file.",
        mend: "Write the manifest, or remove the profile.",
    },
    Page {
        code: "RC0602",
        name: "family-without-profile",
        severity: "error",
        what: "A forwarded family is owned by no profile.",
        why: "Its requests go to a server of which nothing is known.",
        example: "A new family, and nobody added it to `owns`.",
        mend: "Name it under `owns` of the profile that serves it.",
    },
    Page {
        code: "RC0603",
        name: "nothing-compared",
        severity: "error",
        what: "The contract declares no plain profile.",
        why: "A check of nothing is not a clean check.",
        example: "A contract with families only.",
        mend: "Declare the profiles with their manifests.",
    },
    Page {
        code: "RC0701",
        name: "other-digest",
        severity: "error",
        what: "The contract is not the one that `check --expect-digest` expects.",
        why: "What is deployed must be what was reviewed: a digest that a person approved fits one meaning alone.",
        example: "A claim was widened after the digest was written into the pipeline.",
        mend: "Look at `route-contract diff` of the two contracts; where the change is meant, expect the new digest.",
    },
];
