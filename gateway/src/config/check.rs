//! What a configuration's types cannot say: ranges, paths, addresses. What concerns the
//! contract is in [`agreement`](super::agreement).

mod files;
mod telemetry;
mod upstreams;

use std::fmt::Display;
use std::net::SocketAddr;

use route_contract::diagnostic::Diagnostic;

use super::{Loaded, Size, codes};
use crate::admin::Token;

/// The longest probe target and the longest public readiness path, in bytes.
const MAX_PATH: usize = 2_048;

/// Finds what is wrong with the values of a configuration, apart from the contract. Warnings are among the
/// findings; see [`Diagnostic::severity`].
pub fn check(loaded: &Loaded) -> Vec<Diagnostic> {
    let mut findings = Findings {
        loaded,
        found: Vec::new(),
    };
    findings.listen();
    findings.numbers();
    findings.http2();
    findings.drain();
    findings.public_readiness();
    findings.files();
    findings.telemetry();
    findings.upstreams();
    findings.found
}

struct Findings<'l> {
    loaded: &'l Loaded,
    found: Vec<Diagnostic>,
}

impl Findings<'_> {
    fn error(&mut self, code: &'static str, path: &[&str], message: String, help: &str) {
        self.found.push(
            Diagnostic::error(code, message)
                .at(self.loaded.place(path))
                .with_help(help),
        );
    }

    fn listen(&mut self) {
        let config = &self.loaded.config;
        let (public, admin) = (config.listen.public, &config.listen.admin);
        let is_taken = |admin: SocketAddr| {
            let one_address = public.ip() == admin.ip() || public.ip().is_unspecified() || admin.ip().is_unspecified();
            // With port 0 each listener gets a port of its own.
            public.port() == admin.port() && public.port() != 0 && one_address
        };
        if admin.tcp().is_some_and(is_taken) {
            self.found.push(
                Diagnostic::error(
                    codes::SAME_ADDRESS,
                    "the public and the admin listener share an address and a port",
                )
                .at(self.loaded.place(&["listen", "admin"]))
                .with_related("the public listener", self.loaded.place(&["listen", "public"]))
                .with_help("give `listen.admin` another port"),
            );
        }
        if !admin.is_local() && !config.listen.expose_admin && config.admin.token.is_none() {
            self.error(
                codes::ADMIN_EXPOSED,
                &["listen", "admin"],
                "the admin listener is open beyond this machine, and asks for no token".to_owned(),
                "use a loopback address or `unix:`, let `admin.token` name a file with a token, or say that this is \
                 meant: `expose_admin = true`",
            );
        }
        self.token();
    }

    fn token(&mut self) {
        let Some(file) = &self.loaded.config.admin.token else {
            return;
        };
        if let Err(fault) = Token::read(&self.loaded.resolve(file.path())) {
            self.error(
                codes::ADMIN_TOKEN,
                &["admin", "token"],
                format!("the file of `admin.token` {fault}"),
                "such as what `head -c 32 /dev/urandom | base64` prints, readable by the gateway's user alone",
            );
        }
    }

    fn numbers(&mut self) {
        let config = &self.loaded.config;
        let limits = &config.limits;
        let bytes = |size: Size| size.bytes();
        if let Some(threads) = config.threads {
            self.range(&["threads"], threads.get(), 1, 1_024);
        }
        self.range(&["limits", "connections"], limits.connections, 1, 1_000_000);
        if let Some(connections) = limits.connections_per_network {
            let key = &["limits", "connections_per_network"];
            self.range(key, connections, 1, 1_000_000);
        }
        self.range(&["limits", "in_flight"], limits.in_flight, 1, 1_000_000);
        if bytes(limits.min_rate) > bytes(Size::mebibytes(1)) {
            self.out_of_range(
                &["limits", "min_rate"],
                limits.min_rate,
                Size::bytes_of(0),
                Size::mebibytes(1),
            );
        }
        self.range(&["limits", "headers"], limits.headers, 1, 256);
        for (key, size, least, most) in [
            ("target", limits.target, Size::kibibytes(1), Size::kibibytes(60)),
            ("head", limits.head, Size::kibibytes(1), Size::mebibytes(1)),
        ] {
            if !(bytes(least)..=bytes(most)).contains(&bytes(size)) {
                self.out_of_range(&["limits", key], size, least, most);
            }
        }
    }

    fn http2(&mut self) {
        let http2 = &self.loaded.config.listen.http2;
        self.range(&["listen", "http2", "streams"], http2.streams, 1, 10_000);
        let (least, most) = (Size::kibibytes(64), Size::mebibytes(64));
        for (key, size) in [
            ("stream_window", http2.stream_window),
            ("connection_window", http2.connection_window),
        ] {
            if !(least.bytes()..=most.bytes()).contains(&size.bytes()) {
                self.out_of_range(&["listen", "http2", key], size, least, most);
            }
        }
    }

    fn drain(&mut self) {
        let drain = &self.loaded.config.drain;
        if drain.delay >= drain.timeout {
            self.found.push(
                Diagnostic::error(
                    codes::DRAIN_TIMES,
                    format!(
                        "`drain.timeout` is {}, and over before `drain.delay`, {}",
                        drain.timeout, drain.delay
                    ),
                )
                .at(self.loaded.place(&["drain", "timeout"]))
                .with_related("the delay", self.loaded.place(&["drain", "delay"]))
                .with_help("the timeout counts from the signal: make it the delay and the time that requests may take"),
            );
        }
    }

    fn range<N: PartialOrd + Display>(&mut self, path: &[&str], value: N, least: N, most: N) {
        if value < least || value > most {
            self.out_of_range(path, value, least, most);
        }
    }

    fn out_of_range(&mut self, path: &[&str], value: impl Display, least: impl Display, most: impl Display) {
        let key = path.join(".");
        self.error(
            codes::OUT_OF_RANGE,
            path,
            format!("`{key}` is {value}, outside its range"),
            &format!("a value from {least} to {most}"),
        );
    }

    fn public_readiness(&mut self) {
        let readiness = &self.loaded.config.readiness;
        for (key, path) in [("live", &readiness.live), ("ready", &readiness.ready)] {
            if let Some(path) = path
                && let Err(why) = plain_path(path)
            {
                self.error(
                    codes::READINESS_PATH,
                    &["readiness", key],
                    format!("`readiness.{key}` {why}"),
                    "such as \"/livez\" or \"/gateway/readyz\": segments of letters, digits, `-`, `.`, `_` and `~`",
                );
            }
        }
        if let (Some(live), Some(ready)) = (&readiness.live, &readiness.ready) {
            let below = live
                .strip_prefix(ready.as_str())
                .is_some_and(|rest| rest.starts_with('/'));
            if live == ready || below {
                self.found.push(
                    Diagnostic::error(
                        codes::READINESS_TWICE,
                        "`readiness.live` is also answered by `readiness.ready`, which covers the paths below it",
                    )
                    .at(self.loaded.place(&["readiness", "live"]))
                    .with_related("readiness", self.loaded.place(&["readiness", "ready"]))
                    .with_help("give the two paths that neither equal nor contain each other"),
                );
            }
        }
    }
}

/// An absolute path whose every reading is itself, so that it can be matched byte for byte.
fn plain_path(path: &str) -> Result<(), &'static str> {
    let segments = path.strip_prefix('/').ok_or("does not start with `/`")?;
    if segments.is_empty() {
        return Err("is the root, which would hide the front page of what is behind the gateway");
    }
    if path.len() > MAX_PATH {
        return Err("is longer than 2048 bytes");
    }
    for segment in segments.split('/') {
        match segment {
            "" => return Err("holds an empty segment or ends in `/`"),
            "." | ".." => return Err("holds a dot segment"),
            _ => {}
        }
        // The unreserved characters of RFC 3986, section 2.3.
        if !segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        {
            return Err("holds a character that is not plain");
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::load_source;
    use route_contract::diagnostic::Source;
    use std::path::Path;

    /// `code place: message` for each finding.
    pub fn findings(text: &str) -> Vec<String> {
        let source = Source::new("g.toml", text);
        let loaded = load_source(&source, Path::new(""), &|_| None).unwrap();
        check(&loaded)
            .into_iter()
            .map(|found| format!("{} {}: {}", found.code, found.place.unwrap(), found.message))
            .collect()
    }

    pub fn with(lines: &str) -> String {
        format!("contract = \"c\"\n[listen]\npublic = \"127.0.0.1:8080\"\n{lines}")
    }

    #[test]
    fn a_sound_configuration_has_no_findings() {
        let sound = with(
            "[readiness]\nlive = \"/livez\"\nready = \"/readyz\"\n[upstream.a]\nurl = \"http://h\"\nready = { path = \
             \"/r?x=%20\", rise = 1 }\n[upstream.b]\nurl = \"http://h\"\nready = false\n",
        );
        assert_eq!(findings(&sound), [""; 0]);
        assert_eq!(
            findings("contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n"),
            [""; 0]
        );
    }

    #[test]
    fn all_ranges_are_checked_in_one_run_and_have_places() {
        let found = findings(&format!(
            "threads = 5000\n{}",
            with(
                "[limits]\nconnections = 0\nheaders = 257\ntarget = \"61KiB\"\nhead = \"2MiB\"\n[upstream.a]\nurl = \
                 \"http://h\"\nin_flight = 0\nready = { path = \"readyz\", rise = 0, fall = 101 }\n"
            )
        ));
        let starts = [
            "GW0201 g.toml:1:11: `threads` is 5000",
            "GW0201 g.toml:6:15: `limits.connections` is 0",
            "GW0201 g.toml:7:11: `limits.headers` is 257",
            "GW0201 g.toml:8:10: `limits.target` is 61KiB",
            "GW0201 g.toml:9:8: `limits.head` is 2MiB",
            "GW0201 g.toml:12:13: `upstream.a.in_flight` is 0",
            "GW0201 g.toml:13:35: `upstream.a.ready.rise` is 0",
            "GW0201 g.toml:13:45: `upstream.a.ready.fall` is 101",
            "GW0205 g.toml:13:18: the probe's path of `a` does not start",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found} is not {start}");
        }
    }

    #[test]
    fn addresses_are_distinct_and_admin_is_on_loopback_unless_meant() {
        for (lines, codes) in [
            ("admin = \"127.0.0.1:8080\"\n", "GW0209"),
            ("admin = \"0.0.0.0:8080\"\nexpose_admin = true\n", "GW0209"),
            ("admin = \"0.0.0.0:9901\"\n", "GW0210"),
            ("admin = \"0.0.0.0:9901\"\nexpose_admin = true\n", ""),
            ("admin = \"[::1]:9901\"\n", ""),
            ("admin = \"127.0.0.2:8080\"\n", ""),
        ] {
            let found: Vec<String> = findings(&with(lines)).iter().map(|text| text[..6].to_owned()).collect();
            assert_eq!(found.join(" "), codes, "{lines}");
        }
    }

    #[test]
    fn a_drain_has_time_for_requests() {
        for (lines, found) in [
            ("delay = \"30s\"", "GW0225 g.toml:4:1: `drain.timeout` is 30s"),
            (
                "delay = \"2s\"\ntimeout = \"1s\"",
                "GW0225 g.toml:6:11: `drain.timeout` is 1s",
            ),
            ("delay = \"1ms\"\ntimeout = \"1s\"", ""),
        ] {
            let findings = findings(&with(&format!("[drain]\n{lines}\n")));
            let first = findings.first().map_or("", String::as_str);
            assert!(
                first.starts_with(found) && first.is_empty() == found.is_empty(),
                "{first}"
            );
        }
    }

    #[test]
    fn public_readiness_paths_are_plain_and_distinct() {
        for path in [
            "",
            "/",
            "readyz",
            "/a//b",
            "/a/",
            "/a/../b",
            "/./a",
            "/%72eadyz",
            "/a?b",
            "/a;b",
            "/é",
            "/a b",
        ] {
            let found = findings(&with(&format!("[readiness]\nready = \"{path}\"\n")));
            assert!(
                found.len() == 1 && found[0].starts_with("GW0206 g.toml:5:9"),
                "{path}: {found:?}"
            );
        }
        for (live, code) in [("/r", "GW0208"), ("/r/live", "GW0208"), ("/rx", ""), ("/l", "")] {
            let found = findings(&with(&format!("[readiness]\nlive = \"{live}\"\nready = \"/r\"\n")));
            assert_eq!(found.first().map_or("", |text| &text[..6]), code, "{live}");
        }
    }
}
