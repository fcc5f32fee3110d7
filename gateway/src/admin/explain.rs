//! `/explain?path=`: what the running matcher says about a path, in the words of `route-contract`.

use percent_encoding::percent_decode;
use route_contract::explanation::Explanation;
use serde::Serialize;

use crate::proxy::{Generation, classify};

/// An explanation, and the code that a client would be answered with.
#[derive(Serialize)]
pub struct Explained<'g> {
    #[serde(flatten)]
    explanation: Explanation<'g>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    digest: &'g str,
}

/// The path or whole target that a query asks about, byte for byte as a client would send it. It is percent-decoded
/// once, as the query carries it encoded; `+` is itself, since no target holds a blank.
pub fn asked(query: &[u8]) -> Option<Vec<u8>> {
    query
        .split(|byte| *byte == b'&')
        .find_map(|pair| pair.strip_prefix(b"path="))
        .map(|value| percent_decode(value).collect())
}

impl<'g> Explained<'g> {
    /// Asks the matcher of this generation.
    pub fn of(generation: &'g Generation, target: &'g [u8]) -> Self {
        let verdict = generation.classifier.classify(target).verdict;
        Self {
            explanation: Explanation::of(generation.contract(), &generation.classifier, target),
            code: classify::forwarded(verdict).err().map(|refusal| refusal.code()),
            digest: generation.digest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn what_is_asked_is_decoded_once() {
        for (query, expected) in [
            ("path=/a/b", Some("/a/b")),
            ("x=1&path=%2Fa%252Fb&path=/c", Some("/a%2Fb")),
            ("path=/a+b%3Fq=1", Some("/a+b?q=1")),
            ("path=", Some("")),
            ("path=%zz", Some("%zz")),
            ("paths=/a", None),
            ("", None),
        ] {
            assert_eq!(
                asked(query.as_bytes()).as_deref(),
                expected.map(str::as_bytes),
                "{query}"
            );
        }
    }
}
