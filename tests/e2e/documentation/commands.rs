//! Every block of commands in the pages is run, and prints what the page shows.

use std::path::Path;

use super::blocks::{Block, Directive, blocks};
use super::sandbox::Sandbox;
use super::{page, pages};

/// Runs the blocks of a page in order, in one folder.
fn run(name: &str) {
    let text = page(name);
    let found = blocks(&text);
    let to_do = |block: &Block| {
        block.not_run().is_none()
            && (block.is_commands()
                || block
                    .directives
                    .iter()
                    .any(|directive| matches!(directive, Directive::Starts(_) | Directive::Before(_))))
    };
    if !found.iter().any(to_do) {
        return;
    }
    let mut sandbox = Sandbox::new(&text);
    for block in &found {
        let at = format!("{name}:{}", block.line);
        if block.not_run().is_some() {
            continue;
        }
        let mut runs_on = false;
        for directive in &block.directives {
            match directive {
                Directive::File(path) => sandbox.write(Path::new(path), &block.text),
                Directive::Before(command) => {
                    let ran = sandbox.run(command);
                    assert_eq!(ran.code, Some(0), "{at}: before it, `{command}`:\n{}", ran.output);
                }
                Directive::Starts(command) => sandbox.start(command),
                Directive::RunsOn => runs_on = true,
                Directive::Stops => sandbox.stop(),
                Directive::NotRun(_) => {}
            }
        }
        if runs_on {
            sandbox.start(&block.text);
        } else if block.is_commands() {
            steps(&sandbox, block, &at);
        }
    }
}

fn steps(sandbox: &Sandbox, block: &Block, at: &str) {
    for step in block.steps() {
        let ran = sandbox.run(&step.command);
        match &step.output {
            None => assert_eq!(ran.code, Some(0), "{at}: {}\n{}", step.command, ran.output),
            Some(shown) => {
                assert!(
                    !matches!(ran.code, None | Some(126..)),
                    "{at}: {} ends with {:?}:\n{}",
                    step.command,
                    ran.code,
                    ran.output
                );
                let output = sandbox.with_own_ports(&ran.output);
                assert!(
                    agrees(&lines(&shown.join("\n")), &lines(&output)),
                    "{at}: {}\n--- the page shows\n{}\n--- it prints\n{output}",
                    step.command,
                    shown.join("\n")
                );
            }
        }
    }
}

/// The lines of a text without what differs from run to run: identifiers and times.
fn lines(text: &str) -> Vec<String> {
    text.trim_end()
        .lines()
        .map(|line| without_chance(line.trim_end()))
        .collect()
}

/// Replaces runs of 16 hexadecimal digits and more, and times with a decimal point.
fn without_chance(line: &str) -> String {
    let mut out = String::new();
    for word in line.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        match digits.len() {
            16.. => {
                out.push_str("<id>");
                out.push_str(&word[digits.len()..]);
            }
            _ => out.push_str(word),
        }
    }
    out
}

/// Whether the output is what is shown; a line `...` stands for any lines.
fn agrees(shown: &[String], output: &[String]) -> bool {
    match shown.split_first() {
        None => output.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=output.len()).any(|skipped| agrees(rest, &output[skipped..]))
        }
        Some((first, rest)) => output.first() == Some(first) && agrees(rest, &output[1..]),
    }
}

/// Each page is a test of its own, so that they run side by side; the rest of the pages is the last one.
const OWN: [&str; 3] = ["README.md", "docs/quick-start.md", "docs/ci.md"];

#[test]
fn the_commands_of_the_readme_do_what_it_shows() {
    run("README.md");
}

#[test]
fn the_quick_start_leads_to_a_checked_running_gateway() {
    run("docs/quick-start.md");
}

#[test]
fn the_recipe_for_ci_works() {
    run("docs/ci.md");
}

#[test]
fn the_commands_of_all_other_pages_do_what_they_show() {
    for name in pages() {
        if !OWN.contains(&name.as_str()) {
            run(&name);
        }
    }
}

/// The rows of tests/README.md that list what is not run.
fn listed() -> Vec<String> {
    let text = page("tests/README.md");
    let table = text.split("## Commands that are not run").nth(1).expect("a section");
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| ["));
    let mut rows: Vec<String> = rows.map(str::to_owned).collect();
    rows.sort();
    rows
}

#[test]
fn what_is_not_run_is_listed_with_the_reason() {
    let mut rows = Vec::new();
    for name in pages() {
        for block in blocks(&page(&name)) {
            if let Some(reason) = block.not_run() {
                rows.push(format!("| [{name}](../{name}) | `{}` | {reason} |", block.name()));
            }
        }
    }
    rows.sort();
    let expected = rows.join("\n");
    assert_eq!(
        rows,
        listed(),
        "the section \"Commands that are not run\" of tests/README.md must hold\n{expected}"
    );
}

#[test]
fn three_dots_stand_for_any_lines_and_identifiers_for_any_other() {
    let of = |text: &str| lines(text);
    assert!(agrees(&of("a\n...\nd"), &of("a\nb\nc\nd\n")));
    assert!(!agrees(&of("a\n...\nd"), &of("a\nb\n")));
    assert!(agrees(
        &of("\"requestId\":\"5fc948b4e533367d2c452ff572a705e5\""),
        &of("\"requestId\":\"0fc948b4e533367d2c452ff572a705e1\"")
    ));
    assert!(!agrees(&of("profile central"), &of("profile workspace")));
}
