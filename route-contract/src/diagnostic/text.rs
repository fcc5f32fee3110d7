//! The text of a finding for people, in the style of rustc.

use std::fmt;

use anstyle::{AnsiColor, Style};

use super::{Diagnostic, Place, Severity, printable};

/// The styles of a finding's parts.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// The word and the mark of an error.
    pub error: Style,
    /// The same of a warning.
    pub warning: Style,
    /// The same of a note.
    pub note: Style,
    /// Messages and labels.
    pub strong: Style,
    /// Arrows, line numbers and bars.
    pub frame: Style,
}

impl Palette {
    /// No styles at all: the text holds no escape sequence.
    pub const PLAIN: Self = Self {
        error: Style::new(),
        warning: Style::new(),
        note: Style::new(),
        strong: Style::new(),
        frame: Style::new(),
    };

    /// The colours of rustc, for a terminal.
    pub const COLOURED: Self = Self {
        error: AnsiColor::BrightRed.on_default().bold(),
        warning: AnsiColor::Yellow.on_default().bold(),
        note: AnsiColor::BrightGreen.on_default().bold(),
        strong: Style::new().bold(),
        frame: AnsiColor::BrightBlue.on_default().bold(),
    };

    /// The style of a severity.
    pub fn of(&self, severity: Severity) -> Style {
        match severity {
            Severity::Error => self.error,
            Severity::Warning => self.warning,
            Severity::Note => self.note,
        }
    }
}

/// The most characters of a line that an excerpt shows.
const EXCERPT_LIMIT: usize = 160;

/// The text without colours, ending in a line break.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render(&Palette::PLAIN).fmt(f)
    }
}

impl Diagnostic {
    /// The text in colours, ending in a line break.
    pub fn render<'d>(&'d self, palette: &'d Palette) -> impl fmt::Display + 'd {
        Rendered {
            diagnostic: self,
            palette,
        }
    }
}

struct Rendered<'d> {
    diagnostic: &'d Diagnostic,
    palette: &'d Palette,
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic {
            severity,
            code,
            message,
            place,
            related,
            witness,
            help,
        } = self.diagnostic;
        let level = self.palette.of(*severity);
        let Palette { strong, frame, .. } = self.palette;
        writeln!(
            f,
            "{level}{}[{code}]{level:#}{strong}: {}{strong:#}",
            severity.as_str(),
            printable(message)
        )?;
        if let Some(place) = place {
            self.excerpt(f, place, level)?;
        }
        for (words, place) in related {
            writeln!(f, "  {}:", printable(words))?;
            self.excerpt(f, place, *frame)?;
        }
        if let Some(witness) = witness {
            writeln!(
                f,
                "  {frame}={frame:#} {strong}witness{strong:#}: {}",
                printable(witness)
            )?;
        }
        if let Some(help) = help {
            writeln!(f, "  {frame}={frame:#} {strong}help{strong:#}: {}", printable(help))?;
        }
        Ok(())
    }
}

impl Rendered<'_> {
    fn excerpt(&self, f: &mut fmt::Formatter<'_>, place: &Place, mark: Style) -> fmt::Result {
        let frame = self.palette.frame;
        writeln!(f, "  {frame}-->{frame:#} {place}")?;
        let line = place.excerpt();
        if line.is_empty() {
            return Ok(());
        }
        let (number, column) = place.line_column();
        // A long line is shown from a little before the place, so that the mark stays in sight.
        let skipped = if column > EXCERPT_LIMIT / 2 {
            column - 1 - EXCERPT_LIMIT / 4
        } else {
            0
        };
        let shown: String = line.chars().skip(skipped).take(EXCERPT_LIMIT).map(visible).collect();
        let width = number.to_string().len();
        let before = column - 1 - skipped;
        let marked = place
            .source
            .text
            .get(place.span.clone())
            .map_or(1, |text| text.lines().next().map_or(0, |first| first.chars().count()));
        let room = shown.chars().count().saturating_sub(before).max(1);
        writeln!(f, "{frame}{:width$} |{frame:#}", "")?;
        writeln!(f, "{frame}{number} |{frame:#} {shown}")?;
        let carets = "^".repeat(marked.clamp(1, room));
        writeln!(
            f,
            "{frame}{:width$} |{frame:#} {:before$}{mark}{carets}{mark:#}",
            "", ""
        )
    }
}

/// A tab keeps its column as one space; a control character cannot reach the terminal.
fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        control if control.is_control() => '\u{fffd}',
        other => other,
    }
}
