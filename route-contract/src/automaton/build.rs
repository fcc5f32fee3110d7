//! From the trie to states: every set of nodes that some path can stand at is one.

use std::collections::HashMap;

use indexmap::IndexSet;

use super::trie::{Node, Trie};
use super::{
    AutomatonError, DEAD, LiteralId, MAX_PATTERNS_IN_PLACE, MAX_STATES, MAX_VISITS, Mark, PatternId, ROOT, State,
    StateId, mask_of,
};
use crate::pattern::{Pattern, SegmentDfa};
use crate::segments::Segments;

/// What a state stands for while it is built.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Position {
    nodes: Box<[usize]>,
    tails: Box<[Mark]>,
}

/// A combination of patterns with a segment that satisfies it.
type Witnessed = (Vec<bool>, Vec<u8>);

/// The combinations of some patterns that segments satisfy, computed once for each set, each with the segment that
/// showed it last: where no readable guess shows it, the same segment mostly does in the next place too.
type Combinations = HashMap<Box<[PatternId]>, Vec<(Vec<bool>, Option<Vec<u8>>)>>;

/// How far states are made.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) states: usize,
    pub(super) visits: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            states: MAX_STATES,
            visits: MAX_VISITS,
        }
    }
}

pub(super) struct Builder<'t> {
    trie: &'t Trie,
    limits: Limits,
    /// What each state stands for, in the order of the states.
    positions: IndexSet<Position>,
    states: Vec<State>,
    /// How many nodes and tails the positions had that were looked at so far: few states can stand for many.
    visits: usize,
    combinations: Combinations,
}

impl<'t> Builder<'t> {
    pub(super) fn new(trie: &'t Trie, limits: Limits) -> Self {
        let mut builder = Self {
            trie,
            limits,
            positions: IndexSet::new(),
            states: Vec::new(),
            visits: 0,
            combinations: HashMap::new(),
        };
        builder.add(Position::default(), ROOT, Box::default());
        let root = builder.position(&[], [0].into_iter());
        builder.add(root, ROOT, Box::default());
        builder
    }

    pub(super) fn run(mut self) -> Result<Vec<State>, AutomatonError> {
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
    fn position(&mut self, tails: &[Mark], nodes: impl Iterator<Item = usize>) -> Position {
        let mut nodes: Vec<usize> = nodes.collect();
        self.visits += 1 + nodes.len() + tails.len();
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
        let (id, fresh) = self.positions.insert_full(position);
        let position = &self.positions[id];
        let id = id as StateId;
        if !fresh {
            if id == DEAD && self.states[DEAD as usize].segment.is_empty() {
                let dead = &mut self.states[DEAD as usize];
                dead.parent = parent;
                dead.segment = segment;
            }
            return id;
        }
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
        id
    }

    fn expand(&mut self, at: StateId) -> Result<(), AutomatonError> {
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
            self.visits += children.len();
            self.within_limits()?;
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
        self.within_limits()?;
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

    fn within_limits(&self) -> Result<(), AutomatonError> {
        if self.states.len() > self.limits.states || self.visits > self.limits.visits {
            return Err(AutomatonError::TooManyStates);
        }
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
