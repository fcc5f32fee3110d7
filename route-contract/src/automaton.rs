//! All templates at once: one automaton over the segments of a path.
//!
//! Every reachable state stands for a class of paths that no template tells apart, so what holds for a
//! state holds for all of its paths. A path is `/` followed by segments that are separated by `/`: the
//! root has one empty segment, and a trailing slash is an empty last segment.
//!
//! The templates are first laid into a trie. A state is a set of trie nodes together with the `/**` tails
//! that have been entered. From a state lead: each literal that stands there, the empty segment, and one
//! edge for each combination of parameter patterns that some other segment satisfies.

mod build;
#[cfg(test)]
mod tests;
mod trie;

use crate::pattern::{Kinds, Pattern};
use crate::template::Template;
use build::{Builder, Limits};
use trie::Trie;

/// The most states of an automaton; a contract of 100,000 routes has some 300,000.
pub const MAX_STATES: usize = 2_000_000;

/// The most nodes of the tree that are looked at to tell the states apart. A state can stand for thousands of them, so
/// that the number of states alone bounds neither time nor memory.
pub const MAX_VISITS: usize = 50_000_000;

/// The most patterns that may stand in one place of the tree.
pub const MAX_PATTERNS_IN_PLACE: usize = 16;

/// Tells the caller which of its templates is meant.
pub type Mark = u32;

/// A state by its index.
pub type StateId = u32;

/// The state that no template reaches any more.
pub const DEAD: StateId = 0;

/// The state before the first segment.
pub const ROOT: StateId = 1;

/// Why no automaton could be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AutomatonError {
    /// Templates overlap in too many ways.
    #[error(
        "the templates overlap in too many ways (more than {MAX_STATES} classes of paths, or {MAX_VISITS} steps to tell \
         them apart); give overlapping parameters a kind or a literal"
    )]
    TooManyStates,
    /// Too many different patterns in one place.
    #[error("more than {MAX_PATTERNS_IN_PLACE} different parameter patterns stand in one place, below `{0}`")]
    TooManyPatterns(String),
    /// A pattern cannot be used.
    #[error("the parameter patterns below `{0}` are too large to be compared")]
    Undecided(String),
    /// A template names a kind that does not exist.
    #[error("{0}")]
    Pattern(String),
}

/// The automaton.
pub struct Automaton {
    literals: Vec<Box<str>>,
    patterns: Vec<Pattern>,
    states: Vec<State>,
}

/// A class of paths.
pub struct State {
    /// The templates that match a path which ends here, in ascending order.
    pub ends: Box<[Mark]>,
    /// Where each literal leads.
    pub literals: Box<[(LiteralId, StateId)]>,
    /// The patterns that are looked at for a segment that is none of the literals; plain parameters, which
    /// match all of them, are not among these.
    pub patterns: Box<[PatternId]>,
    /// Where such a segment leads, by the combination of `patterns` that it satisfies (bit `n` for pattern `n`).
    pub others: Box<[(u16, StateId)]>,
    /// Where an empty segment leads.
    pub empty: StateId,
    /// Whether any segment can still change which templates match.
    pub live: bool,
    parent: StateId,
    segment: Box<[u8]>,
}

/// A literal by its index.
pub type LiteralId = u32;
/// A pattern by its index.
pub type PatternId = u32;

impl Automaton {
    /// Builds the automaton of some templates. With `fold`, letters match in either case, as on a server that
    /// folds case.
    ///
    /// # Errors
    /// See [`AutomatonError`].
    pub fn new<'t>(
        templates: impl IntoIterator<Item = (Mark, &'t Template)>,
        kinds: &'t Kinds,
        fold: bool,
    ) -> Result<Self, AutomatonError> {
        Self::joined(
            templates.into_iter().map(|(mark, template)| (mark, template, kinds)),
            fold,
        )
    }

    /// Builds one automaton of templates from several contracts, each with the kinds that its parameters
    /// name: a kind of one name may differ from one contract to the other.
    ///
    /// # Errors
    /// See [`AutomatonError`].
    pub fn joined<'t>(
        templates: impl IntoIterator<Item = (Mark, &'t Template, &'t Kinds)>,
        fold: bool,
    ) -> Result<Self, AutomatonError> {
        let mut trie = Trie::new(fold);
        for (mark, template, kinds) in templates {
            trie.insert(mark, template, kinds)?;
        }
        Builder::new(&trie, Limits::default()).run().map(|states| Self {
            literals: trie.literal_texts,
            patterns: trie.patterns,
            states,
        })
    }

    /// All states; index 0 is [`DEAD`], index 1 [`ROOT`].
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// A literal's text.
    pub fn literal(&self, id: LiteralId) -> &str {
        &self.literals[id as usize]
    }

    /// A pattern.
    pub fn pattern(&self, id: PatternId) -> &Pattern {
        &self.patterns[id as usize]
    }

    /// The states that a path can end in: all but the root, and but [`DEAD`] where everything is matched.
    pub fn classes(&self) -> impl Iterator<Item = StateId> {
        (0..self.states.len() as StateId).filter(|id| *id != ROOT && self.is_reachable(*id))
    }

    fn is_reachable(&self, id: StateId) -> bool {
        id != DEAD || !self.states[DEAD as usize].segment.is_empty()
    }

    /// A path with the fewest segments that ends in the state. Bytes that are not UTF-8 are shown as escapes.
    pub fn witness(&self, id: StateId) -> String {
        let mut segments = Vec::new();
        let mut at = id;
        while at != ROOT {
            let state = &self.states[at as usize];
            segments.push(String::from_utf8_lossy(&state.segment));
            at = state.parent;
        }
        let mut path = String::new();
        for segment in segments.iter().rev() {
            path.push('/');
            path.push_str(segment);
        }
        path
    }

    /// How many segments the shortest path has that ends in the state.
    pub fn depth(&self, id: StateId) -> u32 {
        let mut depth = 0;
        let mut at = id;
        while at != ROOT {
            depth += 1;
            at = self.states[at as usize].parent;
        }
        depth
    }

    /// The state that a path ends in; `None` where it does not start with `/`.
    pub fn run(&self, path: &[u8]) -> Option<StateId> {
        let mut at = ROOT;
        for segment in path.strip_prefix(b"/")?.split(|byte| *byte == b'/') {
            at = self.step(at, segment);
        }
        Some(at)
    }

    fn step(&self, at: StateId, segment: &[u8]) -> StateId {
        let state = &self.states[at as usize];
        if let Some((_, next)) = state
            .literals
            .iter()
            .find(|(id, _)| self.literal(*id).as_bytes() == segment)
        {
            return *next;
        }
        if segment.is_empty() {
            return state.empty;
        }
        let mask = mask_of(state.patterns.iter().map(|id| self.pattern(*id).matches(segment)));
        state
            .others
            .iter()
            .find(|(combination, _)| *combination == mask)
            .map_or(DEAD, |(_, next)| *next)
    }
}

/// Bit `n` for the `n`-th verdict.
pub fn mask_of(verdicts: impl Iterator<Item = bool>) -> u16 {
    verdicts
        .enumerate()
        .fold(0, |mask, (bit, matches)| mask | (u16::from(matches) << bit))
}
