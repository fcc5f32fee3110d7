//! Requests that were really made, classified by two contracts: how many would change owner.

use std::collections::HashMap;
use std::io::{self, BufRead, Read as _};

use serde::Deserialize;

use crate::classify::Classifier;
use crate::contract::Contract;
use crate::diagnostic::Diagnostic;
use crate::explanation::owner_name;

/// The longest line that is read, in bytes; what is longer is not understood.
const MAX_LINE: u64 = 1 << 20;

/// The most transitions that are told apart; there can be as many as pairs of families.
pub const MAX_TRANSITIONS: usize = 10;

/// Requests that change owner in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The verdict by the old contract: a family's name, or `never`, `unknown`, `ambiguous`, `invalid`.
    pub from: String,
    /// The verdict by the new contract.
    pub to: String,
    /// How many requests.
    pub requests: u64,
    /// The first of their targets.
    pub example: String,
}

/// What came of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Requests that were classified.
    pub requests: u64,
    /// Those whose verdict changes.
    pub changed: u64,
    /// How they change, most frequent first; at most [`MAX_TRANSITIONS`].
    pub transitions: Vec<Transition>,
    /// How many ways to change there are, the listed ones among them.
    pub ways: usize,
    /// Lines that are no requests: the gateway's messages, and empty lines.
    pub passed_over: u64,
    /// Records whose target the log has cut, so that it cannot be classified.
    pub cut: u64,
    /// Lines that could not be understood.
    pub not_understood: u64,
    /// The number of the first of those, from 1.
    pub first_not_understood: Option<u64>,
}

/// What is read of an access record; see the gateway's documentation for the rest.
#[derive(Deserialize)]
struct Record {
    log: Option<String>,
    target: Option<String>,
}

enum Line {
    Target(Vec<u8>),
    PassedOver,
    Cut,
    NotUnderstood,
}

/// Reads requests, one a line: records of the gateway's access log, or targets as they are.
///
/// # Errors
/// Standard input or the file cannot be read; or, as diagnostics, a contract cannot be compiled.
pub fn replay(old: &Contract, new: &Contract, input: &mut dyn BufRead) -> Result<io::Result<Replay>, Vec<Diagnostic>> {
    let (before, after) = (Classifier::new(old)?, Classifier::new(new)?);
    let mut replay = Replay::default();
    let mut ways: HashMap<(&str, &str), (u64, Vec<u8>)> = HashMap::new();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        match input.take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => number += 1,
            Err(error) => return Ok(Err(error)),
        }
        let target = match read(&line) {
            Line::Target(target) => target,
            Line::PassedOver => {
                replay.passed_over += 1;
                continue;
            }
            Line::Cut => {
                replay.cut += 1;
                continue;
            }
            Line::NotUnderstood => {
                replay.not_understood += 1;
                replay.first_not_understood.get_or_insert(number);
                continue;
            }
        };
        replay.requests += 1;
        let from = owner_name(old, before.classify(&target).verdict);
        let to = owner_name(new, after.classify(&target).verdict);
        if from != to {
            replay.changed += 1;
            ways.entry((from, to)).or_insert_with(|| (0, target)).0 += 1;
        }
    }
    replay.ways = ways.len();
    replay.transitions = ways
        .into_iter()
        .map(|((from, to), (requests, example))| Transition {
            from: from.to_owned(),
            to: to.to_owned(),
            requests,
            example: String::from_utf8_lossy(&example).into_owned(),
        })
        .collect();
    replay
        .transitions
        .sort_by(|left, right| (right.requests, &left.from, &left.to).cmp(&(left.requests, &right.from, &right.to)));
    replay.transitions.truncate(MAX_TRANSITIONS);
    Ok(Ok(replay))
}

fn read(line: &[u8]) -> Line {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    match text.first() {
        None => Line::PassedOver,
        Some(b'{') => match serde_json::from_slice::<Record>(text) {
            Ok(record) if record.log.as_deref().is_some_and(|log| log != "access") => Line::PassedOver,
            Ok(Record {
                target: Some(target), ..
            }) => logged(&target),
            _ => Line::NotUnderstood,
        },
        Some(_) => Line::Target(text.to_vec()),
    }
}

/// The target behind what the access log writes of it. The query is left out as `?…`; any other `…` stands for a part of
/// the path that is not known: the end of a long one, or parameters behind a `;`. Older logs have a backslash before a
/// `'`, which may stand in a path; other backslashes stand for bytes that no path may have, as the backslash itself may
/// not.
fn logged(target: &str) -> Line {
    let path = target.strip_suffix("?…").unwrap_or(target);
    if path.contains('…') {
        return Line::Cut;
    }
    Line::Target(path.replace("\\'", "'").into_bytes())
}
