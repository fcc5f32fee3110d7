//! The map as one HTML file: nothing is fetched, and it can be read and folded without a script. The script adds
//! the search; the page's policy allows it by its hash and nothing else.

use std::fmt::{self, Write};

use super::markup::Escaped;
use super::{Map, Node, Says, owner_words, palette, words};
use crate::contract::{FamilyId, Serve};
use crate::ownership::Owner;

const STYLE: &str = include_str!("html/map.css");
const SCRIPT: &str = include_str!("html/map.js");
/// The hash of [`SCRIPT`] as a Content-Security-Policy has it.
const SCRIPT_HASH: &str = "sha256-tpstszSS5qjupkB0zxvprYnDdA2GfkGzQVt+ZO4U77M=";

/// Up to this many nodes the whole tree stands open; a larger one is open down to its claims.
const OPEN_NODES: usize = 60;

/// Draws the map.
///
/// # Errors
/// The text cannot be written.
pub fn draw(map: &Map<'_>, out: &mut dyn Write) -> fmt::Result {
    let title = format!("Routes of {}", map.contract.source.name);
    let mut nodes = 0;
    map.root.walk(&mut |_| nodes += 1);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'; script-src '{SCRIPT_HASH}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}",
        Escaped(&title)
    )?;
    family_styles(map, out)?;
    write!(
        out,
        "</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n<p class=\"digest\">{} families, {} paths with routes. \
         Digest <code>{}</code></p>\n",
        Escaped(&title),
        map.contract.families.len(),
        map.root.routes(),
        map.contract.digest()
    )?;
    out.write_str(
        "<form role=\"search\" id=\"search\" hidden>\n<label for=\"query\">Search paths, families, methods</label>\n\
         <input id=\"query\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\">\n\
         <button type=\"button\" id=\"expand\">Open all</button>\n<button type=\"button\" id=\"collapse\">Close all</button>\n\
         <output id=\"found\" for=\"query\" aria-live=\"polite\"></output>\n</form>\n",
    )?;
    legend(map, out)?;
    out.write_str("</header>\n<main>\n<ul class=\"tree\">\n")?;
    if !map.root.marks.is_empty() {
        node(map, &map.root, None, nodes <= OPEN_NODES, out)?;
    } else {
        for child in &map.root.children {
            node(map, child, None, nodes <= OPEN_NODES, out)?;
        }
    }
    write!(out, "</ul>\n</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")
}

fn family_styles(map: &Map<'_>, out: &mut dyn Write) -> fmt::Result {
    let rules = |of: fn(usize) -> palette::Colours| -> String {
        (0..map.contract.families.len())
            .map(|index| {
                let colours = of(index);
                format!(
                    ".f{index}{{--back:{};--text:{};--line:{}}}\n",
                    colours.background, colours.text, colours.line
                )
            })
            .collect()
    };
    write!(
        out,
        "{}@media (prefers-color-scheme: dark){{\n{}}}\n",
        rules(palette::light),
        rules(palette::dark)
    )
}

fn legend(map: &Map<'_>, out: &mut dyn Write) -> fmt::Result {
    out.write_str("<section aria-labelledby=\"legend\">\n<h2 id=\"legend\">Families, in the order of classification</h2>\n<ol class=\"legend\">\n")?;
    for (id, family) in map.contract.family_ids() {
        let owner = family
            .owner
            .as_ref()
            .map_or_else(String::new, |owner| format!(" of {owner}"));
        let serve = match (family.serve, &family.routes) {
            (Serve::Never, _) => "never forwarded",
            (Serve::Forward, Some(_)) => "its routes are forwarded, the rest of its claims is refused",
            (Serve::Forward, None) => "all of its claims is forwarded",
        };
        writeln!(
            out,
            "<li><span class=\"chip f{}\">{}</span>{}: {serve}</li>",
            id.index(),
            Escaped(&family.name),
            Escaped(&owner)
        )?;
    }
    out.write_str(
        "</ol>\n<p><span class=\"chip hole\">refused</span> is a hole: a path in a claim that is none of the family's \
         routes. <span class=\"chip\">unknown</span> is claimed by nobody. Both are answered 404.</p>\n</section>\n",
    )
}

fn node(map: &Map<'_>, of: &Node, above: Option<&Node>, open: bool, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "<li class=\"{}\" data-path=\"{}\">", class(of), Escaped(&of.path))?;
    if of.children.is_empty() {
        out.write_str("<div class=\"row\">")?;
        row(map, of, above, out)?;
        return out.write_str("</div>\n</li>\n");
    }
    let stays_open = open || of.children.iter().any(holds_claim);
    writeln!(out, "<details{}><summary>", if stays_open { " open" } else { "" })?;
    row(map, of, above, out)?;
    let routes: usize = of.children.iter().map(Node::routes).sum();
    if routes > 0 {
        write!(out, " <span class=\"count\">{routes} below</span>")?;
    }
    out.write_str("</summary>\n<ul>\n")?;
    for child in &of.children {
        node(map, child, Some(of), open, out)?;
    }
    out.write_str("</ul>\n</details>\n</li>\n")
}

fn holds_claim(node: &Node) -> bool {
    node.marks.iter().any(Says::is_claim) || node.children.iter().any(holds_claim)
}

fn row(map: &Map<'_>, of: &Node, above: Option<&Node>, out: &mut dyn Write) -> fmt::Result {
    let label = if of.label.is_empty() { "/**" } else { &of.label };
    write!(out, "<code>{}</code>", Escaped(label))?;
    if above.map_or(!of.owners.is_empty(), |above| above.owners != of.owners) {
        for owner in &of.owners {
            write!(
                out,
                " <span class=\"chip {}\">{}</span>",
                owner_class(*owner),
                Escaped(&owner_words(map, *owner))
            )?;
        }
    }
    for (kind, text) in words(map, of) {
        write!(out, " <span class=\"says {kind}\">{}</span>", Escaped(&text))?;
    }
    Ok(())
}

fn class(node: &Node) -> String {
    node.owners
        .first()
        .map_or_else(String::new, |owner| owner_class(*owner))
}

fn owner_class(owner: Owner) -> String {
    let family = |id: FamilyId| format!("f{}", id.index());
    match owner {
        Owner::Family(id) => family(id),
        Owner::Never(id) => format!("{} never", family(id)),
        Owner::Refused(id) => format!("{} hole", family(id)),
        Owner::Unclaimed => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn the_policy_names_the_script_by_its_hash() {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut base64 = String::new();
        for chunk in Sha256::digest(SCRIPT.as_bytes()).chunks(3) {
            let bits = (0..3).fold(0u32, |bits, at| {
                bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
            });
            for at in 0..4 {
                if at <= chunk.len() {
                    base64.push(char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]));
                } else {
                    base64.push('=');
                }
            }
        }
        assert_eq!(SCRIPT_HASH, format!("sha256-{base64}"));
    }
}
