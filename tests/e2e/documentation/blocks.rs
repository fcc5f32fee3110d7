//! The blocks of a page, and what is to be done with each.
//!
//! A block of commands is a fenced or an indented one in which a line starts with `$ `, or whose first line starts with
//! a program of [`PROGRAMS`]. Comments before a block, which readers of the page do not see, direct its test:
//!
//! | Comment | Meaning |
//! |---|---|
//! | `<!-- file: PATH -->` | the block is written to this file |
//! | `<!-- before: COMMAND -->` | this is run first |
//! | `<!-- starts: COMMAND -->` | this is started first, and runs until the page ends |
//! | `<!-- runs on -->` | the block itself runs until the page ends |
//! | `<!-- stops -->` | what was started so far is ended first |
//! | `<!-- not run: REASON -->` | the block cannot be run by a test; it must be listed in `tests/README.md` |

/// What begins a block of commands.
const PROGRAMS: [&str; 22] = [
    "apt-get",
    "cargo",
    "curl",
    "dd",
    "docker",
    "dpkg",
    "export",
    "gateway",
    "git",
    "haproxy",
    "helm",
    "kill",
    "kubectl",
    "make",
    "mkdir",
    "nginx",
    "node",
    "npm",
    "pip",
    "route-contract",
    "sudo",
    "systemctl",
];

/// What a comment before a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    File(String),
    Before(String),
    Starts(String),
    RunsOn,
    Stops,
    NotRun(String),
}

/// A block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of the page on which it starts, from 1.
    pub line: usize,
    pub text: String,
    pub directives: Vec<Directive>,
}

/// A command, and what the page shows of its output.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    /// `None` where the page shows the command alone.
    pub output: Option<Vec<String>>,
}

impl Block {
    /// Whether it holds commands.
    pub fn is_commands(&self) -> bool {
        let first = self.text.split_whitespace().next().unwrap_or_default();
        PROGRAMS.contains(&first) || self.text.lines().any(|line| line.starts_with("$ "))
    }

    /// Why it is not run, if so.
    pub fn not_run(&self) -> Option<&str> {
        self.directives.iter().find_map(|directive| match directive {
            Directive::NotRun(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// The first line, by which it is listed.
    pub fn name(&self) -> &str {
        let first = self.text.lines().next().unwrap_or_default();
        first.split("  #").next().unwrap_or_default().trim()
    }

    /// Its commands: each after a `$ ` with the output that follows, or the whole block as a script.
    pub fn steps(&self) -> Vec<Step> {
        if !self.text.lines().any(|line| line.starts_with("$ ")) {
            return vec![Step {
                command: self.text.clone(),
                output: None,
            }];
        }
        let mut steps: Vec<Step> = Vec::new();
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    command: command.to_owned(),
                    output: Some(Vec::new()),
                }),
                // A command may go on over several lines.
                (None, Some(step)) if step.command.ends_with('\\') => {
                    step.command.push('\n');
                    step.command.push_str(line);
                }
                (None, Some(step)) => step.output.get_or_insert_default().push(line.to_owned()),
                (None, None) => panic!("output before the first command in\n{}", self.text),
            }
        }
        steps
    }
}

/// All blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut directives = Vec::new();
    let mut lines = page.lines().enumerate().peekable();
    let mut after_text = false;
    while let Some((index, line)) = lines.next() {
        let trimmed = line.trim();
        if let Some(fence) = trimmed.strip_prefix("```") {
            let indent = line.len() - line.trim_start().len();
            let _language = fence;
            let mut text = String::new();
            for (_, line) in lines.by_ref() {
                if line.trim() == "```" {
                    break;
                }
                text.push_str(line.get(indent..).unwrap_or_default());
                text.push('\n');
            }
            blocks.push(Block {
                line: index + 1,
                text,
                directives: std::mem::take(&mut directives),
            });
            after_text = false;
        } else if let Some(directive) = directive(trimmed) {
            directives.push(directive);
        } else if line.starts_with("    ") && !after_text {
            let mut text = format!("{}\n", &line[4..]);
            while let Some((_, next)) = lines.next_if(|(_, next)| next.starts_with("    ") || next.is_empty()) {
                text.push_str(next.get(4..).unwrap_or_default());
                text.push('\n');
            }
            blocks.push(Block {
                line: index + 1,
                text: format!("{}\n", text.trim_end()),
                directives: std::mem::take(&mut directives),
            });
        } else {
            // An indented line that goes on with a paragraph or a list is no block.
            after_text = !trimmed.is_empty();
            assert!(
                trimmed.is_empty() || directives.is_empty(),
                "line {}: a directive without a block",
                index + 1
            );
        }
    }
    blocks
}

fn directive(line: &str) -> Option<Directive> {
    let text = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    let (name, value) = text.split_once(": ").unwrap_or((text, ""));
    let value = value.trim().to_owned();
    match name {
        "file" => Some(Directive::File(value)),
        "before" => Some(Directive::Before(value)),
        "starts" => Some(Directive::Starts(value)),
        "runs on" => Some(Directive::RunsOn),
        "stops" => Some(Directive::Stops),
        "not run" => Some(Directive::NotRun(value)),
        _ => None,
    }
}

#[test]
fn blocks_are_found_with_their_directives() {
    let page = "Text\n  goes on\n\n    $ curl \\\n      x\n    out\n\n    $ ls\n\n<!-- file: a.toml -->\n```toml\nkey = 1\n```\n\n- item\n\n\
                <!-- before: true -->\n<!-- not run: no -->\n\n    gateway run  # on\n";
    let found = blocks(page);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(
        found[0].steps(),
        [
            Step {
                command: "curl \\\n  x".to_owned(),
                output: Some(vec!["out".to_owned(), String::new()]),
            },
            Step {
                command: "ls".to_owned(),
                output: Some(Vec::new()),
            },
        ]
    );
    assert_eq!(found[1].directives, [Directive::File("a.toml".to_owned())]);
    assert!(!found[1].is_commands());
    assert!(found[2].is_commands());
    assert_eq!(found[2].not_run(), Some("no"));
    assert_eq!(found[2].name(), "gateway run");
}
