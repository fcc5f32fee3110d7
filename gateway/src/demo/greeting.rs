//! What the demo prints: where it listens, and what to try.

use std::fmt;
use std::net::SocketAddr;

/// The addresses of a running demo.
pub struct Greeting<'a> {
    /// For traffic.
    pub public: SocketAddr,
    /// For operators.
    pub admin: SocketAddr,
    /// The profile servers behind the gateway.
    pub upstreams: &'a [(String, SocketAddr)],
}

/// Options of `curl`, a target, and who answers it.
const EXAMPLES: [(&str, &str, &str); 6] = [
    ("", "/api/v1/users/ada?tab=keys", "the central profile"),
    (
        "",
        "/api/v1/workspaces/w1/files/notes%2Ftoday.md",
        "the workspace profile; %2F passes untouched",
    ),
    (
        "-X POST ",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext/github/actions/create-issue",
        "the extension profile",
    ),
    (
        "-i ",
        "/api/v1/workspaces/w1/agents/a1/runtime/ext/github/unknown",
        "refused: claimed by the extension family, and none of its routes",
    ),
    (
        "-i ",
        "/api/v1/workspaces/w1/agents/a1/runtime%2Fext/github",
        "refused: decoded, this is another family's path",
    ),
    ("", "/readyz?verbose", "the gateway itself"),
];

/// The gateway's own addresses come first, each as a URL.
impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The reference deployment, config/agentteam, in one process:\n")?;
        writeln!(f, "  gateway    http://{}", self.public)?;
        writeln!(
            f,
            "  admin      http://{}  (/livez /readyz /metrics /contract)",
            self.admin
        )?;
        for (name, address) in self.upstreams {
            writeln!(f, "  {name:<9}  http://{address}  (upstream)")?;
        }
        writeln!(f, "\nTry, in another terminal:\n")?;
        for (options, target, who) in EXAMPLES {
            writeln!(f, "  # {who}\n  curl {options}'http://{}{target}'", self.public)?;
        }
        writeln!(
            f,
            "\nEach request leaves a line of JSON on standard error. Ctrl-C ends the demo."
        )
    }
}
