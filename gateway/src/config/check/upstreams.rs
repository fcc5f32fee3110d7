//! What is wrong with the tables of upstreams, each by itself.

use route_contract::diagnostic::Diagnostic;

use super::{Findings, MAX_PATH};
use crate::config::{Host, Ready, Upstream, codes};

impl Findings<'_> {
    /// Checks every `[upstream.NAME]` table by itself.
    pub(super) fn upstreams(&mut self) {
        for (name, upstream) in &self.loaded.config.upstream {
            self.urls(name, upstream);
            self.range(&["upstream", name, "in_flight"], upstream.in_flight, 1, 1_000_000);
            self.range(&["upstream", name, "queue"], upstream.queue, 0, 10_000);
            self.range(&["upstream", name, "retry_min"], upstream.retry_min, 0, 10_000);
            let ejection = &["upstream", name, "ejection", "failures"];
            self.range(ejection, upstream.ejection.failures, 1, 1_000);
            self.times(name, upstream);
            let Ready::Probe(probe) = &upstream.ready else {
                continue;
            };
            self.range(&["upstream", name, "ready", "rise"], probe.rise, 1, 100);
            self.range(&["upstream", name, "ready", "fall"], probe.fall, 1, 100);
            if let Err(why) = probe_target(&probe.path) {
                self.error(
                    codes::PROBE_TARGET,
                    &["upstream", name, "ready", "path"],
                    format!("the probe's path of `{name}` {why}"),
                    "such as \"/readyz\"; a query may follow",
                );
            }
        }
    }

    fn urls(&mut self, name: &str, upstream: &Upstream) {
        let mut urls: Vec<String> = upstream.urls().map(ToString::to_string).collect();
        if urls.is_empty() {
            return self.error(
                codes::DOCUMENT.missing_key,
                &["upstream", name],
                format!("`upstream.{name}` has neither `url` nor `urls`"),
                "write `url = \"http://host:port\"`, or `urls` with several of them",
            );
        }
        let count = urls.len();
        urls.sort();
        urls.dedup();
        if (upstream.url.is_some() && !upstream.urls.is_empty()) || urls.len() < count {
            self.error(
                codes::URL_TWICE,
                &["upstream", name, "urls"],
                format!("`upstream.{name}` has both `url` and `urls`, or one URL twice"),
                "write each URL once, under `urls`",
            );
        }
        // A name may have any number of addresses.
        let countable = upstream.urls().all(|url| matches!(url.host(), Host::Address(_)));
        let most = if countable { urls.len() } else { 1_000 };
        if upstream.ready_min == 0 || upstream.ready_min > most {
            self.error(
                codes::READY_MIN,
                &["upstream", name, "ready_min"],
                format!(
                    "`upstream.{name}.ready_min` is {}, which its endpoints cannot reach",
                    upstream.ready_min
                ),
                &format!("a value from 1 to {most}"),
            );
        }
    }

    fn times(&mut self, name: &str, upstream: &Upstream) {
        for (key, time) in [
            ("connect_timeout", upstream.connect_timeout),
            ("response_timeout", upstream.response_timeout),
            ("body_timeout", upstream.body_timeout),
        ] {
            if time > upstream.total_timeout {
                self.found.push(
                    Diagnostic::warning(
                        codes::TIME_NEVER_REACHED,
                        format!("`upstream.{name}.{key}` is longer than its `total_timeout`"),
                    )
                    .at(self.loaded.place(&["upstream", name, key]))
                    .with_help("the total time of a request ends it first: raise that or lower this"),
                );
            }
        }
    }
}

/// An origin-form target (RFC 9112, section 3.2.1).
fn probe_target(target: &str) -> Result<(), &'static str> {
    if !target.starts_with('/') {
        return Err("does not start with `/`");
    }
    if target.len() > MAX_PATH {
        return Err("is longer than 2048 bytes");
    }
    if target.contains('#') {
        return Err("holds a fragment, which is never sent");
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds a blank, a control or a non-ASCII character");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::check::tests::{findings, with};

    #[test]
    fn an_upstream_has_its_urls_once_and_endpoints_enough() {
        for (lines, expected) in [
            ("", "GW0104 g.toml:4:1: `upstream.a` has neither"),
            ("url = \"http://h\"\nurls = []\n", ""),
            ("urls = [\"http://h\", \"http://h:81\"]\n", ""),
            ("urls = [\"http://h\", \"http://h:80/\"]\n", "GW0220 g.toml:5:8: "),
            ("url = \"http://h\"\nurls = [\"http://i\"]\n", "GW0220 g.toml:6:8: "),
            ("url = \"http://h\"\nready_min = 5\n", ""),
            ("url = \"http://h\"\nready_min = 0\n", "GW0222 g.toml:6:13: "),
            (
                "urls = [\"http://10.0.0.1\", \"http://[::1]\"]\nready_min = 3\n",
                "GW0222 g.toml:6:13: ",
            ),
            (
                "url = \"http://h\"\ntotal_timeout = \"30s\"\nbody_timeout = \"30s\"\nresponse_timeout = \"20s\"\n",
                "",
            ),
            (
                "url = \"http://h\"\ntotal_timeout = \"70s\"\nresponse_timeout = \"2m\"\n",
                "GW0223 g.toml:7:20: ",
            ),
            ("url = \"http://h\"\nqueue = 10001\n", "GW0201 g.toml:6:9: "),
            (
                "url = \"http://h\"\nejection = { failures = 0 }\n",
                "GW0201 g.toml:6:25: ",
            ),
        ] {
            let found = findings(&with(&format!("[upstream.a]\n{lines}")));
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{lines}{found:?}");
            assert!(
                found.iter().all(|found| found.starts_with(expected)),
                "{lines}{found:?}"
            );
        }
    }
}
