//! `watch = true`: files that change are taken over once they have settled, however they were changed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use crate::harness::deployment::Deployment;
use crate::harness::process::{Gateway, addresses_in_log};
use crate::harness::recorder::Recorder;
use crate::harness::{EXTENSION, INTERNAL, WORKSPACE};

/// A deployment that is watched, and another place for its family `workspace`.
struct Watched {
    deployment: Deployment,
    elsewhere: Recorder,
    gateway: Gateway,
    text: String,
}

impl Watched {
    fn start() -> Self {
        let deployment = Deployment::new();
        let text = fs::read_to_string(deployment.write()).unwrap();
        let text = format!("watch = true\n{text}");
        let command = deployment.command("run");
        deployment.write_text(&text);
        let gateway = Gateway::start(command, addresses_in_log);
        Self {
            deployment,
            elsewhere: Recorder::start(),
            gateway,
            text,
        }
    }

    /// The file with the family moved.
    fn moved(&self) -> String {
        let here = self.deployment.upstream("workspace").url();
        self.text.replace(&here, &self.elsewhere.url())
    }

    fn file(&self) -> std::path::PathBuf {
        self.deployment.folder().join("gateway.toml")
    }

    #[track_caller]
    fn assert_moved(&self) {
        assert_eq!(self.gateway.get(WORKSPACE).status, 200);
        assert_eq!(self.elsewhere.targets(), [WORKSPACE]);
    }

    #[track_caller]
    fn faults(&self) -> Vec<String> {
        let page = self.gateway.admin_get("/reload").json();
        assert_eq!(page["last"]["outcome"], "refused", "{page}");
        assert_eq!(page["last"]["trigger"], "watch", "{page}");
        let faults = page["last"]["faults"].as_array().unwrap();
        faults
            .iter()
            .map(|fault| fault["code"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn a_file_that_is_renamed_into_place_is_taken_over() {
    let watched = Watched::start();
    replace(&watched.file(), &watched.moved());
    assert_eq!(watched.gateway.wait_for_reload(0), "applied");
    watched.assert_moved();
}

#[test]
fn a_file_that_is_gone_for_a_second_is_waited_for() {
    let watched = Watched::start();
    fs::remove_file(watched.file()).unwrap();
    std::thread::sleep(Duration::from_millis(1_200));
    fs::write(watched.file(), watched.moved()).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(0), "applied");
    watched.assert_moved();
}

#[test]
fn a_file_that_is_written_in_pieces_is_taken_over_once_and_whole() {
    let watched = Watched::start();
    let text = watched.moved();
    // Each piece ends at a line, so that most of them are valid TOML.
    let mut written = String::new();
    for line in text.split_inclusive('\n') {
        written.push_str(line);
        fs::write(watched.file(), &written).unwrap();
        std::thread::sleep(Duration::from_millis(40));
    }
    assert_eq!(watched.gateway.wait_for_reload(0), "applied");
    watched.assert_moved();
    assert_eq!(watched.gateway.reloads(), 1);
}

#[test]
fn a_file_that_stays_cut_off_is_refused() {
    let watched = Watched::start();
    let contract = watched.deployment.folder().join("contract.toml");
    let whole = fs::read_to_string(&contract).unwrap();
    // Cut behind the extension's claims: its routes are gone, and everything behind it.
    let cut = whole.find("routes = [").expect("a list of routes");
    let cut = whole[..cut].rfind('\n').unwrap() + 1;
    fs::write(&contract, &whole[..cut]).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(0), "refused");
    assert_eq!(watched.gateway.get(EXTENSION).status, 200);
    assert_eq!(watched.gateway.get(WORKSPACE).status, 200);
    let before = watched.gateway.reloads();
    fs::write(&contract, &whole).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(before), "unchanged");
    // The configuration, cut between two tables, is valid and says less.
    let text = format!("{}\n[limits]\nbody = \"10B\"\n", watched.text);
    replace(&watched.file(), &text);
    assert_eq!(watched.gateway.wait_for_reload(before + 1), "applied");
    fs::write(watched.file(), &watched.text).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(before + 2), "refused");
    assert_eq!(watched.faults(), ["GW0303"]);
    // Whoever means it says so.
    assert_eq!(watched.gateway.reload(), "applied");
}

#[test]
fn a_contract_that_loses_what_no_table_names_needs_a_word() {
    let watched = Watched::start();
    let contract = watched.deployment.folder().join("contract.toml");
    let whole = fs::read_to_string(&contract).unwrap();
    let start = whole
        .find("[[family]]\nname   = \"internal-only\"")
        .expect("the family");
    let end = start + 1 + whole[start + 1..].find("[[family]]").unwrap();
    replace(&contract, &format!("{}{}", &whole[..start], &whole[end..]));
    assert_eq!(watched.gateway.wait_for_reload(0), "refused");
    assert_eq!(watched.faults(), ["GW0302"]);
    watched.gateway.get(INTERNAL).assert_refusal(404, "not_found");
    // The lists of the extension's routes: without them its whole claim would be forwarded.
    let start = whole
        .find("routes = [\n  \"/api/v1/workspaces/{workspace}/agents")
        .expect("its routes");
    let end = start + whole[start..].find("]\n").unwrap() + 2;
    replace(&contract, &format!("{}{}", &whole[..start], &whole[end..]));
    assert_eq!(watched.gateway.wait_for_reload(1), "refused");
    assert_eq!(watched.faults(), ["GW0302"]);
    let unknown = format!("{EXTENSION}/a/b/c/d");
    watched.gateway.get(&unknown).assert_refusal(404, "not_found");
}

#[test]
fn a_link_that_is_turned_is_followed_as_kubernetes_turns_it() {
    let watched = Watched::start();
    let folder = watched.deployment.folder();
    // The files stand in a folder of their own, which a link `..data` names; the files are links through it.
    let volume = |name: &str, text: &str| {
        let version = folder.join(name);
        fs::create_dir(&version).unwrap();
        fs::write(version.join("gateway.toml"), text).unwrap();
    };
    volume("..2026_1", &watched.text);
    symlink("..2026_1", folder.join("..data")).unwrap();
    fs::remove_file(watched.file()).unwrap();
    symlink("..data/gateway.toml", watched.file()).unwrap();
    volume("..2026_2", &watched.moved());
    symlink("..2026_2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(0), "applied");
    watched.assert_moved();
    fs::remove_dir_all(folder.join("..2026_1")).unwrap();
    volume("..2026_3", &watched.text);
    symlink("..2026_3", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(1), "applied");
    assert_eq!(watched.gateway.get(WORKSPACE).status, 200);
    assert_eq!(watched.deployment.upstream("workspace").targets(), [WORKSPACE]);
}

#[test]
fn a_contract_under_another_name_is_watched_from_then_on() {
    let watched = Watched::start();
    let folder = watched.deployment.folder();
    let contract = fs::read_to_string(folder.join("contract.toml")).unwrap();
    fs::write(folder.join("other.toml"), &contract).unwrap();
    let text = watched
        .text
        .replace("contract = \"contract.toml\"", "contract = \"missing.toml\"");
    replace(&watched.file(), &text);
    // It does not come within the time for which files may be gone.
    assert_eq!(watched.gateway.wait_for_reload(0), "refused");
    assert_eq!(watched.faults(), ["RC0101"]);
    fs::rename(folder.join("other.toml"), folder.join("missing.toml")).unwrap();
    assert_eq!(watched.gateway.wait_for_reload(1), "applied");
    let before = watched.gateway.reloads();
    let added = format!("{contract}\n[kinds]\nadded = \"[0-9]+\"\n");
    replace(&folder.join("missing.toml"), &added);
    assert_eq!(watched.gateway.wait_for_reload(before), "applied");
}
