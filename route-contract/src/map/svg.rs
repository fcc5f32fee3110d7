//! The map as an SVG drawing: one row for each node, with lines from parent to child. It takes the colours of a
//! light or a dark page by itself.

use std::fmt::{self, Write};

use super::markup::Escaped;
use super::{Map, Node, owner_words, palette, words};
use crate::ownership::Owner;

const ROW: usize = 22;
const INDENT: usize = 22;
const LEFT: usize = 16;
const TOP: usize = 34;
/// The width of a character at the size that labels have.
const CHARACTER: usize = 8;

/// A node in its row.
struct Row<'n> {
    node: &'n Node,
    depth: usize,
    parent: Option<usize>,
}

/// Draws the map.
///
/// # Errors
/// The text cannot be written.
pub fn draw(map: &Map<'_>, out: &mut dyn Write) -> fmt::Result {
    let mut rows = Vec::new();
    if map.root.marks.is_empty() {
        for child in &map.root.children {
            lay_out(child, 0, None, &mut rows);
        }
    } else {
        lay_out(&map.root, 0, None, &mut rows);
    }
    let texts: Vec<(String, String)> = rows.iter().map(|row| texts(map, row.node)).collect();
    let width = rows
        .iter()
        .zip(&texts)
        .map(|(row, (label, notes))| {
            LEFT + row.depth * INDENT + 16 + (label.chars().count() + notes.chars().count() + 4) * CHARACTER
        })
        .max()
        .unwrap_or(0)
        .max(480);
    let legend = map.contract.families.len() + 1;
    let height = TOP + (rows.len() + legend + 2) * ROW;
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">Routes of {}</title>\n<style>\n",
        Escaped(&map.contract.source.name)
    )?;
    style(map, out)?;
    write!(
        out,
        "</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n<text class=\"head\" x=\"{LEFT}\" y=\"22\">Routes of {}</text>\n",
        Escaped(&map.contract.source.name)
    )?;
    for (index, (row, (label, notes))) in rows.iter().zip(&texts).enumerate() {
        draw_row(row, index, label, notes, out)?;
    }
    let mut y = TOP + (rows.len() + 1) * ROW;
    for (id, family) in map.contract.family_ids() {
        writeln!(
            out,
            "<rect class=\"dot f{}\" x=\"{LEFT}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"3\"/><text x=\"{}\" y=\"{}\">{}</text>",
            id.index(),
            y,
            LEFT + 20,
            y + 11,
            Escaped(&family.name)
        )?;
        y += ROW;
    }
    writeln!(
        out,
        "<rect class=\"dot hole\" x=\"{LEFT}\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"3\"/><text x=\"{}\" y=\"{}\">a hole: claimed and refused</text>\n</svg>",
        LEFT + 20,
        y + 11
    )
}

fn lay_out<'n>(node: &'n Node, depth: usize, parent: Option<usize>, rows: &mut Vec<Row<'n>>) {
    let own = rows.len();
    rows.push(Row { node, depth, parent });
    for child in &node.children {
        lay_out(child, depth + 1, Some(own), rows);
    }
}

fn texts(map: &Map<'_>, node: &Node) -> (String, String) {
    let label = if node.label.is_empty() { "/**" } else { &node.label };
    let mut notes: Vec<String> = Vec::new();
    if node.is_hole() || node.owners.len() > 1 {
        notes.extend(node.owners.iter().map(|owner| owner_words(map, *owner)));
    }
    notes.extend(words(map, node).into_iter().map(|(_, text)| text));
    (label.to_owned(), notes.join(" · "))
}

fn draw_row(row: &Row<'_>, index: usize, label: &str, notes: &str, out: &mut dyn Write) -> fmt::Result {
    let x = LEFT + row.depth * INDENT;
    let y = TOP + index * ROW;
    if let Some(parent) = row.parent {
        let from = TOP + parent * ROW + 14;
        let corner = x - INDENT + 6;
        writeln!(out, "<path class=\"edge\" d=\"M{corner} {from}V{}H{x}\"/>", y + 6)?;
    }
    let class = match row.node.owners.first() {
        Some(Owner::Family(id)) => format!("f{}", id.index()),
        Some(Owner::Never(id)) => format!("f{} never", id.index()),
        Some(Owner::Refused(_)) => "hole".to_owned(),
        Some(Owner::Unclaimed) | None => "unknown".to_owned(),
    };
    writeln!(
        out,
        "<rect class=\"dot {class}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"3\"/>\
         <text x=\"{}\" y=\"{}\">{}<tspan class=\"notes\" dx=\"12\">{}</tspan></text>",
        x + 18,
        y + 11,
        Escaped(label),
        Escaped(notes)
    )
}

fn style(map: &Map<'_>, out: &mut dyn Write) -> fmt::Result {
    out.write_str(
        "text{font:13px ui-monospace,monospace;fill:#1b1f24}.head{font-weight:bold}.notes{fill:#4d555f}.page{fill:#fff}\n\
         .edge{fill:none;stroke:#8b95a1}.dot{stroke-width:1.5}.dot.unknown{fill:#fff;stroke:#6b7480}\n\
         .dot.hole{fill:#fff;stroke:#1b1f24;stroke-dasharray:3 2}.dot.never{stroke-dasharray:3 2}\n",
    )?;
    for index in 0..map.contract.families.len() {
        let colours = palette::light(index);
        writeln!(out, ".f{index}{{fill:{};stroke:{}}}", colours.background, colours.line)?;
    }
    out.write_str(
        "@media (prefers-color-scheme: dark){text{fill:#e9ecf1}.notes{fill:#b3bbc6}.page{fill:#14171c}.edge{stroke:#7a8491}\n\
         .dot.unknown{fill:#14171c;stroke:#9aa4b1}.dot.hole{fill:#14171c;stroke:#e9ecf1}\n",
    )?;
    for index in 0..map.contract.families.len() {
        let colours = palette::dark(index);
        writeln!(out, ".f{index}{{fill:{};stroke:{}}}", colours.background, colours.line)?;
    }
    out.write_str("}\n")
}
