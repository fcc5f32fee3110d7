//! The map as a Mermaid flowchart, for a README: families' templates alone, since a renderer gives up on large
//! charts.

use std::fmt::{self, Write};

use super::{Map, Node, owner_words, palette, words};
use crate::ownership::Owner;

/// Draws the map.
///
/// # Errors
/// The text cannot be written.
pub fn draw(map: &Map<'_>, out: &mut dyn Write) -> fmt::Result {
    out.write_str("flowchart LR\n")?;
    let mut number = 0;
    draw_node(map, &map.root, None, &mut number, out)?;
    for index in 0..map.contract.families.len() {
        let colours = palette::light(index);
        writeln!(
            out,
            "  classDef f{index} fill:{},stroke:{},color:{}",
            colours.background, colours.line, colours.text
        )?;
    }
    out.write_str("  classDef hole fill:#fff,stroke:#1b1f24,color:#1b1f24,stroke-dasharray:4 3\n")?;
    out.write_str("  classDef unknown fill:#fff,stroke:#6b7480,color:#1b1f24\n")
}

fn draw_node(
    map: &Map<'_>,
    node: &Node,
    parent: Option<usize>,
    number: &mut usize,
    out: &mut dyn Write,
) -> fmt::Result {
    let own = *number;
    *number += 1;
    let label = if node.label.is_empty() { "/" } else { &node.label };
    let mut lines = vec![quoted(label)];
    if node.is_hole() || node.owners.len() > 1 {
        lines.extend(node.owners.iter().map(|owner| quoted(&owner_words(map, *owner))));
    }
    lines.extend(words(map, node).iter().map(|(_, text)| quoted(text)));
    let class = match node.owners.first() {
        Some(Owner::Family(id) | Owner::Never(id)) => format!("f{}", id.index()),
        Some(Owner::Refused(_)) => "hole".to_owned(),
        Some(Owner::Unclaimed) | None => "unknown".to_owned(),
    };
    writeln!(out, "  n{own}[\"{}\"]:::{class}", lines.join("<br/>"))?;
    if let Some(parent) = parent {
        writeln!(out, "  n{parent} --> n{own}")?;
    }
    for child in &node.children {
        draw_node(map, child, Some(own), number, out)?;
    }
    Ok(())
}

/// Text that Mermaid takes as it is: everything with a meaning there or in HTML is a character code.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | ' ' | '/' | '-' | '_' | '.' | ':' | ',' => quoted.push(character),
            control if control.is_control() => quoted.push('\u{fffd}'),
            other => quoted.push_str(&format!("#{};", u32::from(other))),
        }
    }
    quoted
}
