//! `[traces]`: where spans go, and how many wait.

use super::{Findings, codes};

impl Findings<'_> {
    pub(super) fn telemetry(&mut self) {
        let traces = &self.loaded.config.traces;
        self.range(&["traces", "queue"], traces.queue, 1, 1_000_000);
        if traces.endpoint.as_ref().is_some_and(|endpoint| endpoint.h2c()) {
            self.error(
                codes::TRACES_ENDPOINT,
                &["traces", "endpoint"],
                "`traces.endpoint` is an `h2c` URL".to_owned(),
                "an `http` or `https` URL: spans are sent by HTTP/1.1, most collectors take them on port 4318",
            );
        }
        if traces.service.is_empty() {
            self.error(
                codes::TRACES_SERVICE,
                &["traces", "service"],
                "`traces.service` is empty".to_owned(),
                "a name by which the gateway is found among other services, such as \"gateway\"",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, with};

    #[test]
    fn spans_go_by_http1_under_a_name() {
        for (lines, expected) in [
            ("endpoint = \"http://collector:4318\"\n", None),
            ("endpoint = \"https://collector\"\n", None),
            ("endpoint = \"h2c://collector:4317\"\n", Some("GW0230 g.toml:5:12")),
            ("service = \"\"\n", Some("GW0231 g.toml:5:11")),
            ("queue = 0\n", Some("GW0201 g.toml:5:9")),
        ] {
            let found = findings(&with(&format!("[traces]\n{lines}")));
            match expected {
                None => assert_eq!(found, [""; 0], "{lines}"),
                Some(start) => assert!(found.len() == 1 && found[0].starts_with(start), "{lines}: {found:?}"),
            }
        }
    }
}
