//! The certificates of the listener and of upstreams, judged before anything listens.

use std::time::SystemTime;

use route_contract::diagnostic::Diagnostic;

use super::{ClientAuth, ListenTls, Loaded, Protocol, Upstream, UpstreamUrl, codes};
use crate::certificate::{Fault, Identity, Part, Unusable, authorities};
use crate::listen::tls::UnusableFile;

/// Finds what is wrong with the files of `[listen.tls]` and of each `[upstream.NAME.tls]`. The texts hold no path: the place is that of the key that
/// names the file.
pub(super) fn check(loaded: &Loaded) -> Vec<Diagnostic> {
    let mut found = listener(loaded);
    for (name, table) in &loaded.config.upstream {
        found.extend(upstream(loaded, name, table));
    }
    found
}

fn upstream(loaded: &Loaded, name: &str, table: &Upstream) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let has_tls = table.urls().any(UpstreamUrl::tls);
    if table.protocol != Protocol::Http1 && !has_tls {
        found.push(
            Diagnostic::error(codes::UPSTREAM_TLS, format!("`upstream.{name}.protocol` has no effect"))
                .at(loaded.place(&["upstream", name, "protocol"]))
                .with_help("it is for `https` URLs; HTTP/2 without TLS is `h2c://` in the URL"),
        );
    }
    let Some(tls) = &table.tls else { return found };
    if !has_tls {
        found.push(
            Diagnostic::error(
                codes::UPSTREAM_TLS,
                format!("`upstream.{name}` has keys for TLS, and no URL of it is `https`"),
            )
            .at(loaded.place(&["upstream", name, "tls"]))
            .with_help("write `https://`, or leave the table out"),
        );
    }
    if tls.cert.is_some() != tls.key.is_some() {
        let key = if tls.cert.is_some() { "cert" } else { "key" };
        found.push(
            Diagnostic::error(
                codes::UPSTREAM_TLS,
                format!("`upstream.{name}.tls` has one of `cert` and `key` without the other"),
            )
            .at(loaded.place(&["upstream", name, "tls", key]))
            .with_help("name both files, or neither"),
        );
    }
    if tls.insecure_skip_verify {
        found.push(
            Diagnostic::warning(
                codes::UPSTREAM_UNVERIFIED,
                format!("the certificate of `{name}` is not verified, so anybody in between can pose as it"),
            )
            .at(loaded.place(&["upstream", name, "tls", "insecure_skip_verify"]))
            .with_help("name the authority in `ca`"),
        );
    }
    let authorities = tls
        .ca
        .as_ref()
        .map(|path| authorities(&loaded.resolve(path)).map(|_| ()));
    let identity = tls
        .identity(&loaded.config)
        .map(|files| Identity::load(&files).map(|_| ()));
    for unusable in authorities.into_iter().chain(identity).filter_map(Result::err) {
        let key = match unusable.part {
            Part::Certificate => "cert",
            Part::Key => "key",
            Part::Authorities => "ca",
        };
        found.push(of_file(loaded, &["upstream", name, "tls", key], &unusable));
    }
    found
}

fn listener(loaded: &Loaded) -> Vec<Diagnostic> {
    let Some(table) = &loaded.config.listen.tls else {
        return Vec::new();
    };
    let mut found: Vec<Diagnostic> = client_auth(loaded, table).into_iter().collect();
    let Some(settings) = loaded.tls_settings() else {
        return found;
    };
    let names: Vec<&String> = table.certificate.keys().collect();
    let name = |index: usize| names.get(index).map_or("", |name| name.as_str());
    match settings.load() {
        Err(faults) => found.extend(faults.iter().map(|fault| unusable(loaded, fault, &name))),
        Ok(files) => {
            let now = SystemTime::now();
            for (index, identity) in files.identities.iter().enumerate() {
                let path = match index.checked_sub(1) {
                    None => vec!["listen", "tls", "cert"],
                    Some(index) => vec!["listen", "tls", "certificate", name(index), "cert"],
                };
                if let Some(why) = doubt(identity, now, index > 0) {
                    found.push(
                        Diagnostic::warning(codes::CERTIFICATE_DOUBTFUL, format!("the certificate {why}"))
                            .at(loaded.place(&path))
                            .with_help("clients will refuse the connection; renew the certificate"),
                    );
                }
            }
        }
    }
    found
}

fn client_auth(loaded: &Loaded, table: &ListenTls) -> Option<Diagnostic> {
    let asked = table.client_auth.is_some_and(|auth| auth != ClientAuth::None);
    let (key, message) = match (&table.client_ca, table.client_auth) {
        (None, _) if asked => (
            "client_auth",
            "clients are asked for certificates, and no authority is named to judge them by",
        ),
        (Some(_), Some(ClientAuth::None)) => (
            "client_ca",
            "an authority for clients' certificates is named, and clients are not asked for any",
        ),
        _ => return None,
    };
    Some(
        Diagnostic::error(codes::CLIENT_AUTH, message)
            .at(loaded.place(&["listen", "tls", key]))
            .with_help("name the authorities' certificates in `client_ca`, or leave both keys out"),
    )
}

fn unusable<'a>(loaded: &Loaded, fault: &UnusableFile, name: &dyn Fn(usize) -> &'a str) -> Diagnostic {
    let key = match fault.unusable.part {
        Part::Certificate => "cert",
        Part::Key => "key",
        Part::Authorities => "client_ca",
    };
    let path = match fault.certificate {
        None => vec!["listen", "tls", key],
        Some(index) => vec!["listen", "tls", "certificate", name(index), key],
    };
    of_file(loaded, &path, &fault.unusable)
}

/// The finding about the file that the key at `path` names.
fn of_file(loaded: &Loaded, path: &[&str], unusable: &Unusable) -> Diagnostic {
    let code = match unusable.fault {
        Fault::Mismatch => codes::KEY_MISMATCH,
        _ => codes::CERTIFICATE_FILE,
    };
    let help = match (unusable.part, &unusable.fault) {
        (_, Fault::Mismatch) => "give the key that the certificate was requested with",
        (Part::Key, _) => "a PEM file with one private key: PKCS #8, PKCS #1 or SEC1, without a passphrase",
        (Part::Certificate, _) => "a PEM file with the certificate first, then the rest of its chain",
        (Part::Authorities, _) => "a PEM file with the certificates of the authorities",
    };
    Diagnostic::error(code, format!("the file of `{}` {}", path.join("."), unusable.fault))
        .at(loaded.place(path))
        .with_help(help)
}

/// Why clients will not take a certificate; `by_host` tells whether it is shown for the hosts that it bears.
fn doubt(identity: &Identity, now: SystemTime, by_host: bool) -> Option<&'static str> {
    if now > identity.not_after {
        Some("has expired")
    } else if now < identity.not_before {
        Some("is not valid yet")
    } else if by_host && identity.names.is_empty() {
        Some("bears no host name, so it is never shown")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_source;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use route_contract::diagnostic::Source;
    use std::fs;
    use std::path::Path;

    /// Writes `NAME.pem` and `NAME-key.pem`, valid up to the end of `last_year`.
    fn issue(folder: &Path, name: &str, last_year: i32) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([format!("{name}.test")]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
    }

    fn findings(folder: &Path, tls: &str) -> Vec<String> {
        let text = format!("contract = \"c\"\n[listen]\npublic = \"127.0.0.1:0\"\n[listen.tls]\n{tls}");
        let loaded = load_source(&Source::new("g.toml", text), folder, &|_| None).unwrap();
        check(&loaded)
            .into_iter()
            .map(|found| format!("{} {}: {}", found.code, found.place.unwrap(), found.message))
            .collect()
    }

    #[test]
    fn faults_of_files_are_found_in_one_run_and_have_the_places_of_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        issue(folder.path(), "a", 2040);
        issue(folder.path(), "b", 2040);
        issue(folder.path(), "old", 2021);
        fs::write(folder.path().join("empty.pem"), "").unwrap();
        let sound = "cert = \"a.pem\"\nkey = \"a-key.pem\"\n[listen.tls.certificate.b]\ncert = \"b.pem\"\nkey = \"b-key.pem\"\n";
        assert_eq!(findings(folder.path(), sound), [""; 0]);
        for (tls, expected) in [
            (
                "cert = \"none.pem\"\nkey = \"a-key.pem\"\nclient_ca = \"empty.pem\"\n[listen.tls.certificate.b]\ncert = \"b.pem\"\nkey = \"a-key.pem\"\n",
                &[
                    "GW0213 g.toml:5:8: the file of `listen.tls.cert` cannot be read",
                    "GW0214 g.toml:10:7: the file of `listen.tls.certificate.b.key` holds a private key that does not",
                    "GW0213 g.toml:7:13: the file of `listen.tls.client_ca` holds no PEM section",
                ][..],
            ),
            (
                "cert = \"old.pem\"\nkey = \"old-key.pem\"\n",
                &["GW0215 g.toml:5:8: the certificate has expired"],
            ),
            (
                "cert = \"a.pem\"\nkey = \"a-key.pem\"\nclient_auth = \"optional\"\n",
                &["GW0216 g.toml:7:15: clients are asked for certificates"],
            ),
            (
                "cert = \"a.pem\"\nkey = \"a-key.pem\"\nclient_ca = \"b.pem\"\nclient_auth = \"none\"\n",
                &["GW0216 g.toml:7:13: an authority for clients"],
            ),
        ] {
            let found = findings(folder.path(), tls);
            assert_eq!(found.len(), expected.len(), "{found:#?}");
            for (found, start) in found.iter().zip(expected) {
                assert!(found.starts_with(start), "{found} is not {start}");
            }
        }
    }
}
