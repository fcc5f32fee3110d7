//! Which segments there are: for a set of patterns, every combination of "matches" and "does not match"
//! that some segment can satisfy, each with a short, readable segment that shows it.
//!
//! The patterns' DFAs are run side by side over all bytes but `/`; a joint state stands for all segments
//! that lead there. That is exact: no combination is missed and none is made up.

use std::collections::{HashMap, VecDeque};

use regex_automata::util::primitives::StateID;

use crate::pattern::SegmentDfa;

/// The most joint states of one set of patterns.
const MAX_JOINT_STATES: usize = 20_000;

/// The most steps that one search for a witness takes.
const MAX_STEPS: usize = 1_000_000;

/// The longest witness, in bytes: no route needs a longer segment.
pub(crate) const MAX_WITNESS: usize = 1024;

/// A witness could not be found or ruled out in bounded time.
#[derive(Debug)]
pub(crate) struct TooHard;

/// Bytes that read well in a path, best first. The others follow in their order.
const READABLE: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-_.ABCDEFGHIJKLMNOPQRSTUVWXYZ~:@!$&'()*+,;=";

/// The joint automaton of some patterns.
pub(crate) struct Segments<'p> {
    patterns: &'p [&'p SegmentDfa],
    /// All bytes that a segment can hold, the readable ones first.
    alphabet: Vec<u8>,
    /// For each byte of the alphabet, the column of its class.
    column: Vec<usize>,
    states: Vec<JointState>,
}

struct JointState {
    verdicts: Vec<bool>,
    /// The next state for each class of bytes.
    next: Vec<usize>,
    /// Whether a segment that is not empty leads here.
    entered: bool,
}

impl<'p> Segments<'p> {
    /// Explores all joint states; `None` when there are too many.
    pub(crate) fn new(patterns: &'p [&'p SegmentDfa]) -> Option<Self> {
        let rest = (0..=u8::MAX).filter(|byte| *byte != b'/' && !READABLE.contains(byte));
        let alphabet: Vec<u8> = READABLE.iter().copied().chain(rest).collect();
        let mut classes: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut representatives = Vec::new();
        let mut column = Vec::with_capacity(alphabet.len());
        for &byte in &alphabet {
            let class: Vec<u8> = patterns.iter().map(|pattern| pattern.class(byte)).collect();
            let count = classes.len();
            let index = *classes.entry(class).or_insert_with(|| {
                representatives.push(byte);
                count
            });
            column.push(index);
        }
        let mut segments = Self {
            patterns,
            alphabet,
            column,
            states: Vec::new(),
        };
        segments.explore(&representatives).then_some(segments)
    }

    fn explore(&mut self, representatives: &[u8]) -> bool {
        let start: Vec<StateID> = self.patterns.iter().map(|pattern| pattern.start()).collect();
        let mut known: HashMap<Vec<StateID>, usize> = HashMap::from([(start.clone(), 0)]);
        let mut queue = VecDeque::from([start]);
        self.push(false);
        let mut at = 0;
        while let Some(joint) = queue.pop_front() {
            self.states[at].verdicts = self
                .patterns
                .iter()
                .zip(&joint)
                .map(|(pattern, &state)| pattern.is_accepting(state))
                .collect();
            for &byte in representatives {
                let next: Vec<StateID> = self
                    .patterns
                    .iter()
                    .zip(&joint)
                    .map(|(pattern, &state)| pattern.next(state, byte))
                    .collect();
                let count = known.len();
                let index = *known.entry(next.clone()).or_insert(count);
                if index == count {
                    if count >= MAX_JOINT_STATES {
                        return false;
                    }
                    self.push(true);
                    queue.push_back(next);
                }
                self.states[index].entered = true;
                self.states[at].next.push(index);
            }
            at += 1;
        }
        true
    }

    fn push(&mut self, entered: bool) {
        self.states.push(JointState {
            verdicts: Vec::new(),
            next: Vec::new(),
            entered,
        });
    }

    /// Every combination that some segment satisfies, in the order in which they are found.
    pub(crate) fn combinations(&self) -> Vec<Vec<bool>> {
        let mut combinations: Vec<Vec<bool>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for state in self.states.iter().filter(|state| state.entered) {
            if seen.insert(&state.verdicts) {
                combinations.push(state.verdicts.clone());
            }
        }
        combinations
    }

    /// A short segment with this combination for which `wanted` holds; `None` when there is none.
    ///
    /// # Errors
    /// None was found in bounded time, and none can be ruled out.
    pub(crate) fn find(
        &self,
        combination: &[bool],
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, TooHard> {
        let distance = self.distances(combination);
        if distance[0] == usize::MAX {
            return Ok(None);
        }
        let mut steps = 0;
        // A language that is longer than its automaton has states is infinite: then there is always a next
        // length to try, and only the number of unwanted segments bounds the search.
        let last = (self.states.len() + distance[0] + 1).min(MAX_WITNESS);
        for length in distance[0].max(1)..=last {
            let mut text = Vec::with_capacity(length);
            if self.search(0, length, &distance, combination, &wanted, &mut text, &mut steps) {
                return Ok(Some(text));
            }
            if steps >= MAX_STEPS {
                return Err(TooHard);
            }
        }
        if self.states.len() + distance[0] + 1 > MAX_WITNESS {
            Err(TooHard)
        } else {
            Ok(None)
        }
    }

    /// Looks for a segment of exactly `length` more bytes, best reading first.
    #[allow(clippy::too_many_arguments)] // one recursive search; a struct would only name them twice
    fn search(
        &self,
        at: usize,
        length: usize,
        distance: &[usize],
        combination: &[bool],
        wanted: &impl Fn(&[u8]) -> bool,
        text: &mut Vec<u8>,
        steps: &mut usize,
    ) -> bool {
        if length == 0 {
            return self.states[at].verdicts == combination && wanted(text);
        }
        for (&byte, &column) in self.alphabet.iter().zip(&self.column) {
            let next = self.states[at].next[column];
            if distance[next] > length - 1 {
                continue;
            }
            *steps += 1;
            if *steps >= MAX_STEPS {
                return false;
            }
            text.push(byte);
            if self.search(next, length - 1, distance, combination, wanted, text, steps) {
                return true;
            }
            text.pop();
        }
        false
    }

    /// For each state, how many bytes are needed at least to a state with this combination.
    fn distances(&self, combination: &[bool]) -> Vec<usize> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (at, state) in self.states.iter().enumerate() {
            for &next in &state.next {
                before[next].push(at);
            }
        }
        let mut distance = vec![usize::MAX; self.states.len()];
        let mut queue = VecDeque::new();
        for (at, state) in self.states.iter().enumerate() {
            if state.verdicts == combination {
                distance[at] = 0;
                queue.push_back(at);
            }
        }
        while let Some(at) = queue.pop_front() {
            for &source in &before[at] {
                if distance[source] == usize::MAX {
                    distance[source] = distance[at] + 1;
                    queue.push_back(source);
                }
            }
        }
        distance
    }
}
