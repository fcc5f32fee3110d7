//! What the demo prints: where it listens, and what to try.

use std::fmt;
use std::net::SocketAddr;

use super::examples::Example;
use crate::config::ListenAddress;

/// A running demo.
pub struct Greeting<'a> {
    /// The contract's name in findings.
    pub contract: &'a str,
    /// For traffic.
    pub public: SocketAddr,
    /// For operators.
    pub admin: &'a ListenAddress,
    /// The profile servers behind the gateway.
    pub upstreams: &'a [(String, SocketAddr)],
    /// What to try.
    pub examples: &'a [Example],
}

/// The gateway's own addresses come first, each as a URL.
impl fmt::Display for Greeting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} with all its profiles, in one process:\n", self.contract)?;
        let names = self.upstreams.iter().map(|(name, _)| name.chars().count());
        let width = names.max().unwrap_or_default().max("gateway".len());
        writeln!(f, "  {:<width$}  http://{}", "gateway", self.public)?;
        writeln!(
            f,
            "  {:<width$}  http://{}  (status page; /metrics /explain /contract /config)",
            "admin", self.admin
        )?;
        for (name, address) in self.upstreams {
            writeln!(f, "  {name:<width$}  http://{address}  (upstream)")?;
        }
        writeln!(f, "\nTry, in another terminal:\n")?;
        for example in self.examples {
            let options = match example.method.as_str() {
                "GET" => String::new(),
                method => format!("-X {method} "),
            };
            writeln!(
                f,
                "  # {}\n  curl {options}'http://{}{}'",
                example.answer, self.public, example.target
            )?;
        }
        writeln!(
            f,
            "  # which families are ready\n  curl 'http://{}/readyz?verbose'",
            self.public
        )?;
        writeln!(
            f,
            "\nEach request leaves a line of JSON on standard error. Ctrl-C ends the demo."
        )
    }
}
