//! All templates at once: one automaton over the segments of a path.
//!
//! Every reachable state stands for a class of paths that no template tells apart, so what holds for a
//! state holds for all of its paths. A path is `/` followed by segments that are separated by `/`: the
//! root has one empty segment, and a trailing slash is an empty last segment.
//!
//! The templates are first laid into a trie. A state is a set of trie nodes together with the `/**` tails
//! that have been entered. From a state lead: each literal that stands there, the empty segment, and one
//! edge for each combination of parameter patterns that some other segment satisfies.

use std::collections::{BTreeSet, HashMap};

use crate::pattern::{Kinds, Pattern, PatternKey, SegmentDfa};
use crate::segments::Segments;
use crate::template::{Segment, Template};

/// The most states of an automaton.
pub const MAX_STATES: usize = 4_000_000;

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
    #[error("the templates overlap in more than {MAX_STATES} ways; give overlapping parameters a kind or a literal")]
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

#[derive(Default)]
struct Node {
    literals: HashMap<LiteralId, usize>,
    patterns: Vec<PatternEdge>,
    ends: Vec<Mark>,
    tails: Vec<Mark>,
}

/// Where a parameter leads, with the names it has there, for readable witnesses.
struct PatternEdge {
    pattern: PatternId,
    child: usize,
    names: BTreeSet<Box<str>>,
}

/// What a state stands for while it is built.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Position {
    nodes: Box<[usize]>,
    tails: Box<[Mark]>,
}

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
        Builder::new(&trie).run().map(|states| Self {
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

struct Trie {
    fold: bool,
    nodes: Vec<Node>,
    literals: HashMap<Box<str>, LiteralId>,
    literal_texts: Vec<Box<str>>,
    pattern_keys: HashMap<PatternKey, PatternId>,
    patterns: Vec<Pattern>,
}

impl Trie {
    fn new(fold: bool) -> Self {
        Self {
            fold,
            nodes: vec![Node::default()],
            literals: HashMap::new(),
            literal_texts: Vec::new(),
            pattern_keys: HashMap::new(),
            patterns: Vec::new(),
        }
    }

    fn insert(&mut self, mark: Mark, template: &Template, kinds: &Kinds) -> Result<(), AutomatonError> {
        let mut at = 0;
        for segment in template.segments() {
            at = match segment {
                Segment::Literal(text) => {
                    let literal = self.literal(text);
                    self.literal_child(at, literal)
                }
                Segment::Parameter(parameter) => {
                    // By the expression, not by the name: that is what a segment is held against.
                    let expression = match &parameter.kind {
                        None => None,
                        Some(name) => Some(
                            kinds
                                .expression(name)
                                .ok_or_else(|| AutomatonError::Pattern(format!("there is no kind `{name}`")))?
                                .into(),
                        ),
                    };
                    let key: PatternKey = (parameter.prefix.clone(), expression, parameter.suffix.clone());
                    let pattern = match self.pattern_keys.get(&key) {
                        Some(id) => *id,
                        None => {
                            let id = self.patterns.len() as PatternId;
                            let pattern = Pattern::new(parameter, kinds, self.fold).map_err(AutomatonError::Pattern)?;
                            self.patterns.push(pattern);
                            self.pattern_keys.insert(key, id);
                            id
                        }
                    };
                    self.pattern_child(at, pattern, &parameter.name)
                }
            };
        }
        let node = &mut self.nodes[at];
        if template.has_tail() {
            node.tails.push(mark);
        } else {
            node.ends.push(mark);
        }
        Ok(())
    }

    fn literal(&mut self, text: &str) -> LiteralId {
        let text: Box<str> = if self.fold {
            text.to_ascii_lowercase().into()
        } else {
            text.into()
        };
        if let Some(id) = self.literals.get(&text) {
            return *id;
        }
        let id = self.literal_texts.len() as LiteralId;
        self.literal_texts.push(text.clone());
        self.literals.insert(text, id);
        id
    }

    fn literal_child(&mut self, at: usize, literal: LiteralId) -> usize {
        let fresh = self.nodes.len();
        let child = *self.nodes[at].literals.entry(literal).or_insert(fresh);
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child
    }

    fn pattern_child(&mut self, at: usize, pattern: PatternId, name: &str) -> usize {
        let fresh = self.nodes.len();
        let edges = &mut self.nodes[at].patterns;
        if let Some(edge) = edges.iter_mut().find(|edge| edge.pattern == pattern) {
            edge.names.insert(name.into());
            return edge.child;
        }
        edges.push(PatternEdge {
            pattern,
            child: fresh,
            names: BTreeSet::from([name.into()]),
        });
        self.nodes.push(Node::default());
        fresh
    }
}

/// A combination of patterns with a segment that satisfies it.
type Witnessed = (Vec<bool>, Vec<u8>);

/// The combinations of some patterns that segments satisfy, computed once for each set, each with the segment that
/// showed it last: where no readable guess shows it, the same segment mostly does in the next place too.
type Combinations = HashMap<Box<[PatternId]>, Vec<(Vec<bool>, Option<Vec<u8>>)>>;

struct Builder<'t> {
    trie: &'t Trie,
    known: HashMap<Position, StateId>,
    positions: Vec<Position>,
    states: Vec<State>,
    combinations: Combinations,
}

impl<'t> Builder<'t> {
    fn new(trie: &'t Trie) -> Self {
        let mut builder = Self {
            trie,
            known: HashMap::new(),
            positions: Vec::new(),
            states: Vec::new(),
            combinations: HashMap::new(),
        };
        builder.add(Position::default(), ROOT, Box::default());
        let root = builder.position(&[], [0].into_iter());
        builder.add(root, ROOT, Box::default());
        builder
    }

    fn run(mut self) -> Result<Vec<State>, AutomatonError> {
        // DEAD leads to itself, whatever comes.
        self.states[DEAD as usize].others = Box::new([(0, DEAD)]);
        let mut at = ROOT as usize;
        while at < self.positions.len() {
            self.expand(at as StateId)?;
            at += 1;
        }
        Ok(self.states)
    }

    /// The position behind some nodes: what was entered before stays entered.
    fn position(&self, tails: &[Mark], nodes: impl Iterator<Item = usize>) -> Position {
        let mut nodes: Vec<usize> = nodes.collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut tails: Vec<Mark> = tails.to_vec();
        for node in &nodes {
            tails.extend_from_slice(&self.trie.nodes[*node].tails);
        }
        tails.sort_unstable();
        tails.dedup();
        // A leaf that has been counted among the tails has nothing more to say; the root stays, so that it is
        // a state of its own even where there are no templates.
        nodes.retain(|index| {
            let node = &self.trie.nodes[*index];
            *index == 0 || !(node.ends.is_empty() && node.literals.is_empty() && node.patterns.is_empty())
        });
        Position {
            nodes: nodes.into(),
            tails: tails.into(),
        }
    }

    /// The state of a position, made when it is new.
    fn add(&mut self, position: Position, parent: StateId, segment: Box<[u8]>) -> StateId {
        if let Some(id) = self.known.get(&position) {
            if *id == DEAD && self.states[DEAD as usize].segment.is_empty() {
                let dead = &mut self.states[DEAD as usize];
                dead.parent = parent;
                dead.segment = segment;
            }
            return *id;
        }
        let id = self.states.len() as StateId;
        let mut ends: Vec<Mark> = position.tails.to_vec();
        for node in &position.nodes {
            ends.extend_from_slice(&self.trie.nodes[*node].ends);
        }
        ends.sort_unstable();
        ends.dedup();
        let live = position.nodes.iter().any(|node| {
            let node = &self.trie.nodes[*node];
            !node.literals.is_empty() || !node.patterns.is_empty()
        }) || ends[..] != position.tails[..];
        self.states.push(State {
            ends: ends.into(),
            literals: Box::default(),
            patterns: Box::default(),
            others: Box::default(),
            empty: DEAD,
            live,
            parent,
            segment,
        });
        self.known.insert(position.clone(), id);
        self.positions.push(position);
        id
    }

    fn expand(&mut self, at: StateId) -> Result<(), AutomatonError> {
        if self.states.len() > MAX_STATES {
            return Err(AutomatonError::TooManyStates);
        }
        let trie = self.trie;
        let Position { nodes, tails } = self.positions[at as usize].clone();
        let children: Vec<&Node> = nodes.iter().map(|node| &trie.nodes[*node]).collect();
        let mut literals: Vec<LiteralId> = children.iter().flat_map(|node| node.literals.keys().copied()).collect();
        literals.sort_unstable();
        literals.dedup();
        let mut patterns: Vec<PatternId> = children
            .iter()
            .flat_map(|node| node.patterns.iter().map(|edge| edge.pattern))
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        let through = |accepted: &dyn Fn(PatternId) -> bool| -> Vec<usize> {
            children
                .iter()
                .flat_map(|node| node.patterns.iter())
                .filter(|edge| accepted(edge.pattern))
                .map(|edge| edge.child)
                .collect()
        };

        let mut literal_edges = Vec::with_capacity(literals.len());
        for &literal in &literals {
            let text = trie.literal_texts[literal as usize].as_bytes();
            let mut next: Vec<usize> = children
                .iter()
                .filter_map(|node| node.literals.get(&literal).copied())
                .collect();
            next.extend(through(&|id| trie.patterns[id as usize].matches(text)));
            let position = self.position(&tails, next.into_iter());
            literal_edges.push((literal, self.add(position, at, text.into())));
        }

        let narrow: Box<[PatternId]> = patterns
            .iter()
            .copied()
            .filter(|id| matches!(trie.patterns[*id as usize], Pattern::Dfa(_)))
            .collect();
        if narrow.len() > MAX_PATTERNS_IN_PLACE {
            return Err(AutomatonError::TooManyPatterns(self.place(at)));
        }
        let mut others = Vec::new();
        for (combination, segment) in self.witnesses(at, &children, &narrow, &literals)? {
            let next = through(&|id| match narrow.iter().position(|narrow| *narrow == id) {
                Some(index) => combination[index],
                None => true,
            });
            let position = self.position(&tails, next.into_iter());
            let mask = mask_of(combination.iter().copied());
            others.push((mask, self.add(position, at, segment.into())));
        }

        let empty_literal = literal_edges
            .iter()
            .find(|(id, _)| trie.literal_texts[*id as usize].is_empty());
        let empty = match empty_literal {
            Some((_, next)) => *next,
            None => {
                let position = self.position(&tails, std::iter::empty());
                self.add(position, at, Box::default())
            }
        };
        let state = &mut self.states[at as usize];
        state.literals = literal_edges.into();
        state.patterns = narrow;
        state.others = others.into();
        state.empty = empty;
        Ok(())
    }

    /// For each combination of the patterns that a segment outside the literals can satisfy, such a segment.
    fn witnesses(
        &mut self,
        at: StateId,
        nodes: &[&Node],
        narrow: &[PatternId],
        literals: &[LiteralId],
    ) -> Result<Vec<Witnessed>, AutomatonError> {
        let trie = self.trie;
        let dfas: Vec<&SegmentDfa> = narrow
            .iter()
            .filter_map(|id| match &trie.patterns[*id as usize] {
                Pattern::Dfa(dfa) => Some(&**dfa),
                Pattern::Any => None,
            })
            .collect();
        let is_literal = |segment: &[u8]| {
            std::str::from_utf8(segment)
                .ok()
                .and_then(|text| trie.literals.get(text))
                .is_some_and(|id| literals.binary_search(id).is_ok())
        };
        let undecided = || AutomatonError::Undecided(self.place(at));
        // The joint automaton is needed where a combination is new or a readable guess does not show it.
        let mut joint = None;
        let mut combinations = match self.combinations.get(narrow) {
            Some(known) => known.clone(),
            None => {
                let segments = Segments::new(&dfas).ok_or_else(undecided)?;
                let combinations = segments.combinations();
                joint = Some(segments);
                combinations
                    .into_iter()
                    .map(|combination| (combination, None))
                    .collect()
            }
        };
        let mut guesses: Vec<String> = nodes
            .iter()
            .flat_map(|node| node.patterns.iter().flat_map(|edge| &edge.names))
            .map(|name| format!("{}1", name.to_ascii_lowercase()))
            .collect();
        guesses.extend(["other", "x", "1", "X_", "other1"].map(str::to_owned));
        let mut found = Vec::with_capacity(combinations.len());
        for (combination, last) in &mut combinations {
            let shows = |segment: &[u8]| {
                !is_literal(segment)
                    && narrow
                        .iter()
                        .zip(&*combination)
                        .all(|(id, expected)| trie.patterns[*id as usize].matches(segment) == *expected)
            };
            if let Some(guess) = guesses.iter().find(|guess| shows(guess.as_bytes())) {
                found.push((combination.clone(), guess.clone().into_bytes()));
                continue;
            }
            if let Some(segment) = last.as_ref().filter(|segment| shows(segment)) {
                found.push((combination.clone(), segment.clone()));
                continue;
            }
            let segments = match &joint {
                Some(segments) => segments,
                None => joint.insert(Segments::new(&dfas).ok_or_else(undecided)?),
            };
            match segments.find(combination, |segment| !is_literal(segment)) {
                Ok(Some(segment)) => {
                    *last = Some(segment.clone());
                    found.push((combination.clone(), segment));
                }
                Ok(None) => {}
                Err(_) => return Err(undecided()),
            }
        }
        self.combinations.insert(narrow.into(), combinations);
        Ok(found)
    }

    /// The path to a state, for an error.
    fn place(&self, at: StateId) -> String {
        let mut path = String::new();
        let mut at = at;
        while at != ROOT {
            let state = &self.states[at as usize];
            path = format!("/{}{path}", String::from_utf8_lossy(&state.segment));
            at = state.parent;
        }
        if path.is_empty() { "/".to_owned() } else { path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn automaton(templates: &[&str]) -> Automaton {
        let templates: Vec<Template> = templates.iter().map(|text| Template::parse(text).unwrap()).collect();
        let marked = templates
            .iter()
            .enumerate()
            .map(|(mark, template)| (mark as Mark, template));
        Automaton::new(marked, &Kinds::default(), false).unwrap()
    }

    fn ends(automaton: &Automaton, path: &str) -> Vec<Mark> {
        let state = automaton.run(path.as_bytes()).unwrap();
        automaton.states()[state as usize].ends.to_vec()
    }

    #[test]
    fn a_path_ends_in_the_templates_that_match_it() {
        let automaton = automaton(&[
            "/",
            "/**",
            "/a",
            "/a/",
            "/a/**",
            "/a/{x}",
            "/a/{x:int}",
            "/a/b",
            "/a/{x:kebab}/c",
        ]);
        for (path, expected) in [
            ("/", vec![0, 1]),
            ("/x", vec![1]),
            ("/a", vec![1, 2, 4]),
            ("/a/", vec![1, 3, 4]),
            ("/a//", vec![1, 4]),
            ("/a/b", vec![1, 4, 5, 7]),
            ("/a/7", vec![1, 4, 5, 6]),
            ("/a/Z", vec![1, 4, 5]),
            ("/a/b/c", vec![1, 4, 8]),
            ("/a/Z/c", vec![1, 4]),
            ("/a/b/c/d", vec![1, 4]),
            ("//", vec![1]),
        ] {
            assert_eq!(ends(&automaton, path), expected, "{path}");
        }
    }

    #[test]
    fn every_state_has_a_witness_that_ends_in_it() {
        for templates in [
            vec![
                "/a/{x}/b",
                "/a/{y:int}/c",
                "/{z}/q/**",
                "/a/{u:uuid}",
                "/p-{k:kebab}.x/y",
                "/w/",
            ],
            vec!["/**"],
            vec!["/"],
            vec![],
        ] {
            let automaton = automaton(&templates);
            for class in automaton.classes() {
                let witness = automaton.witness(class);
                assert_eq!(automaton.run(witness.as_bytes()), Some(class), "{witness}");
            }
        }
    }

    #[test]
    fn a_finite_kind_whose_members_are_all_literals_makes_no_class() {
        let mut kinds = Kinds::default();
        kinds.declare("bit", "0|1").unwrap();
        let templates = ["/0", "/1", "/{b:bit}/x"].map(|text| Template::parse(text).unwrap());
        let marked = templates
            .iter()
            .enumerate()
            .map(|(mark, template)| (mark as Mark, template));
        let automaton = Automaton::new(marked, &kinds, false).unwrap();
        assert_eq!(automaton.states()[ROOT as usize].others.len(), 1);
    }
}
