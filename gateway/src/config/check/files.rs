//! Files that `gateway run` makes: where they cannot be, it does not start.

use std::io;
use std::path::Path;

use route_contract::diagnostic::Diagnostic;

use super::{Findings, codes};
use crate::config::ListenAddress;

impl Findings<'_> {
    /// Warns of places where a file could not be made. No error: what starts the gateway often makes the folders first
    /// (`RuntimeDirectory=` of systemd), and the file may be checked on another machine.
    pub(super) fn files(&mut self) {
        let config = &self.loaded.config;
        if let ListenAddress::Unix(path) = &config.listen.admin {
            self.place_for(&["listen", "admin"], path);
        }
        if let Some(path) = &config.log.file {
            self.place_for(&["log", "file"], &self.loaded.resolve(path));
        }
    }

    fn place_for(&mut self, key: &[&str], path: &Path) {
        let Some((why, help)) = hindrance(path) else {
            return;
        };
        self.found.push(
            Diagnostic::warning(
                codes::NO_PLACE_FOR_FILE,
                format!("the file of `{}` cannot be made here: {why}", key.join(".")),
            )
            .at(self.loaded.place(key))
            .with_help(help),
        );
    }
}

/// Why no file can be made at a path, and what to do about it.
fn hindrance(path: &Path) -> Option<(String, &'static str)> {
    if path.is_dir() {
        return Some(("a folder is there".to_owned(), "name a file in it"));
    }
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Some(("it has no name".to_owned(), "name a file")),
    };
    match folder.metadata() {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some((
            format!("`{}` is no folder", folder.display()),
            "name a file in a folder",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some((
            format!("the folder `{}` is not there", folder.display()),
            "make it, for the gateway's user to write to, before the gateway starts",
        )),
        Err(error) => Some((
            format!("the folder `{}`: {error}", folder.display()),
            "let the gateway's user reach it",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, with};

    #[test]
    fn files_that_cannot_be_made_are_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("file"), "").unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for (name, expected) in [
            ("gateway.log", None),
            ("file", None),
            ("none/gateway.log", Some("is not there")),
            ("file/gateway.log", Some("is no folder")),
            ("folder", Some("a folder is there")),
        ] {
            let log = findings(&with(&format!("[log]\nfile = \"{}\"\n", at(name))));
            let admin = findings(&with(&format!("admin = \"unix:{}\"\n", at(name))));
            match expected {
                None => assert!(log.is_empty() && admin.is_empty(), "{name}: {log:?} {admin:?}"),
                Some(why) => {
                    assert_eq!((log.len(), admin.len()), (1, 1), "{name}: {log:?} {admin:?}");
                    assert!(
                        log[0].starts_with("GW0226 g.toml:5:8") && log[0].contains(why),
                        "{log:?}"
                    );
                    assert!(
                        admin[0].starts_with("GW0226 g.toml:4:9") && admin[0].contains(why),
                        "{admin:?}"
                    );
                }
            }
        }
    }
}
