//! The compiled matcher: the automaton of a contract's families as flat tables.
//!
//! One step a segment: a probe of one hash table that holds the literals of all states, else the edge for
//! other segments. A look-up allocates nothing, and neither the number of routes nor the client's choice of
//! bytes changes its cost: the table is fixed when the contract is compiled, and so is its longest probe.
//!
//! `matchit`, which builds the profiles' routers, is not used here. It keeps a list for backtracking on the
//! heap wherever a literal stands beside a parameter, and more than three parameters too; it has no kinds;
//! and it cannot hold `/a/{x}/b` beside `/a/**`. `docs/decisions/matcher.md` has the figures.

use crate::automaton::{Automaton, AutomatonError, DEAD, ROOT, StateId, mask_of};
use crate::contract::Contract;
use crate::ownership::{Decision, Ownership};
use crate::pattern::Pattern;

/// The compiled matcher.
pub struct Matcher {
    slots: Box<[Slot]>,
    /// The bytes of all literals in one row.
    texts: Box<[u8]>,
    states: Box<[State]>,
    decisions: Box<[Decision]>,
    patterns: Box<[Pattern]>,
    others: Box<[(u16, StateId)]>,
}

/// One literal of one state.
#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    state: StateId,
    next: StateId,
    text: u32,
}

const FREE: Slot = Slot {
    key: Key {
        hash: 0,
        first: [0; 2],
        len: 0,
    },
    state: StateId::MAX,
    next: DEAD,
    text: 0,
};

struct State {
    /// Where an empty segment leads.
    empty: StateId,
    /// Where a segment leads that is none of the literals, if no pattern has to be looked at.
    other: StateId,
    /// The patterns to look at, and behind them the edges by combination; none where `other` says it all.
    patterns: (u32, u8),
    combinations: (u32, u16),
    has_literals: bool,
    /// Whether any further segment can change the decision.
    live: bool,
}

impl Matcher {
    /// Compiles a contract's families. With `fold`, letters match in either case.
    ///
    /// # Errors
    /// The families' templates overlap in too many ways.
    pub fn new(contract: &Contract, ownership: &Ownership, fold: bool) -> Result<Self, AutomatonError> {
        let automaton = Automaton::new(ownership.templates(), &contract.kinds, fold)?;
        Ok(Self::compile(&automaton, ownership))
    }

    fn compile(automaton: &Automaton, ownership: &Ownership) -> Self {
        let count: usize = automaton.states().iter().map(|state| state.literals.len()).sum();
        let mut matcher = Self {
            // At most half full, so that a probe ends soon.
            slots: vec![FREE; (count * 2).next_power_of_two().max(2)].into(),
            texts: Box::default(),
            states: Box::default(),
            decisions: automaton
                .states()
                .iter()
                .map(|state| ownership.decide(&state.ends))
                .collect(),
            patterns: Box::default(),
            others: Box::default(),
        };
        let mut texts = Vec::new();
        let mut states = Vec::with_capacity(automaton.states().len());
        let mut patterns = Vec::new();
        let mut others = Vec::new();
        for (id, state) in (0..).zip(automaton.states()) {
            for &(literal, next) in &state.literals {
                let text = automaton.literal(literal).as_bytes();
                let start = texts.len() as u32;
                texts.extend_from_slice(text);
                matcher.occupy(Slot {
                    key: Key::read::<false>(id, text),
                    state: id,
                    next,
                    text: start,
                });
            }
            let first_pattern = patterns.len() as u32;
            patterns.extend(state.patterns.iter().map(|id| automaton.pattern(*id).clone()));
            let first_other = others.len() as u32;
            if !state.patterns.is_empty() {
                others.extend_from_slice(&state.others);
            }
            states.push(State {
                empty: state.empty,
                other: state.others.first().map_or(DEAD, |(_, next)| *next),
                patterns: (first_pattern, state.patterns.len() as u8),
                combinations: (first_other, (others.len() as u32 - first_other) as u16),
                has_literals: !state.literals.is_empty(),
                live: state.live,
            });
        }
        matcher.texts = texts.into();
        matcher.states = states.into();
        matcher.patterns = patterns.into();
        matcher.others = others.into();
        matcher
    }

    fn occupy(&mut self, slot: Slot) {
        let last = self.slots.len() - 1;
        let mut at = slot.key.hash as usize & last;
        while self.slots[at].state != StateId::MAX {
            at = (at + 1) & last;
        }
        self.slots[at] = slot;
    }

    /// The decision on a path, taken as it stands; `FOLD` reads its letters as lower case.
    #[inline]
    pub fn decide<const FOLD: bool>(&self, path: &[u8]) -> Decision {
        match path.strip_prefix(b"/") {
            Some(rest) => self.decision(self.walk::<FOLD>(ROOT, rest)),
            None => Decision::UNCLAIMED,
        }
    }

    /// The state behind all segments of `rest`, which starts with the first byte of a segment.
    #[inline]
    pub fn walk<const FOLD: bool>(&self, at: StateId, rest: &[u8]) -> StateId {
        let mut at = at;
        let mut rest = rest;
        loop {
            let Some(state) = self.states.get(at as usize) else {
                return DEAD;
            };
            if !state.live {
                return at;
            }
            let key = if state.has_literals {
                Key::read::<FOLD>(at, rest)
            } else {
                Key::skip(rest)
            };
            let length = key.len as usize;
            let segment = rest.get(..length).unwrap_or_default();
            at = self.step_by::<FOLD>(at, state, &key, segment);
            match rest.get(length + 1..) {
                Some(behind) => rest = behind,
                None => return at,
            }
        }
    }

    /// The decision on the paths that end in a state.
    #[inline]
    pub fn decision(&self, at: StateId) -> Decision {
        self.decisions.get(at as usize).copied().unwrap_or(Decision::UNCLAIMED)
    }

    /// Whether no further segment can change the decision.
    #[inline]
    pub fn is_final(&self, at: StateId) -> bool {
        self.states.get(at as usize).is_none_or(|state| !state.live)
    }

    /// The state behind one more segment.
    #[inline]
    pub fn step<const FOLD: bool>(&self, at: StateId, segment: &[u8]) -> StateId {
        let Some(state) = self.states.get(at as usize) else {
            return DEAD;
        };
        if !state.live {
            return at;
        }
        self.step_by::<FOLD>(at, state, &Key::read::<FOLD>(at, segment), segment)
    }

    #[inline]
    fn step_by<const FOLD: bool>(&self, at: StateId, state: &State, key: &Key, segment: &[u8]) -> StateId {
        if segment.is_empty() {
            return state.empty;
        }
        if state.has_literals
            && let Some(next) = self.literal::<FOLD>(at, key, segment)
        {
            return next;
        }
        if state.patterns.1 == 0 {
            state.other
        } else {
            self.other::<FOLD>(state, segment)
        }
    }

    #[inline]
    fn literal<const FOLD: bool>(&self, at: StateId, key: &Key, segment: &[u8]) -> Option<StateId> {
        let last = self.slots.len() - 1;
        let mut index = key.hash as usize & last;
        loop {
            let slot = self.slots.get(index)?;
            if slot.state == StateId::MAX {
                return None;
            }
            if slot.state == at && slot.key == *key && (key.is_whole() || self.equals::<FOLD>(slot, segment)) {
                return Some(slot.next);
            }
            index = (index + 1) & last;
        }
    }

    /// Whether a literal that is longer than its key is the segment.
    fn equals<const FOLD: bool>(&self, slot: &Slot, segment: &[u8]) -> bool {
        let start = slot.text as usize;
        let text = self.texts.get(start..start + slot.key.len as usize);
        text.is_some_and(|text| {
            if FOLD {
                text.eq_ignore_ascii_case(segment)
            } else {
                text == segment
            }
        })
    }

    fn other<const FOLD: bool>(&self, state: &State, segment: &[u8]) -> StateId {
        let (first, count) = state.patterns;
        let patterns = self
            .patterns
            .get(first as usize..first as usize + usize::from(count))
            .unwrap_or_default();
        let mask = mask_of(patterns.iter().map(|pattern| pattern.matches_as::<FOLD>(segment)));
        let (first, count) = state.combinations;
        let edges = self
            .others
            .get(first as usize..first as usize + usize::from(count))
            .unwrap_or_default();
        edges
            .iter()
            .find(|(combination, _)| *combination == mask)
            .map_or(DEAD, |(_, next)| *next)
    }
}

/// What is known of a segment after one pass over its bytes, eight at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    /// Of the state and the segment. Which literals collide is fixed by the contract, so that a client can
    /// gain nothing by choosing its bytes.
    hash: u64,
    /// The first sixteen bytes, padded with zeros.
    first: [u64; 2],
    len: u32,
}

impl Key {
    /// Reads the segment that `rest` starts with, up to a `/` or the end.
    #[inline]
    fn read<const FOLD: bool>(state: StateId, rest: &[u8]) -> Self {
        let fold = |word| if FOLD { lower_case(word) } else { word };
        let seed = mix(u64::from(state));
        let (word, length) = segment_word(rest);
        let mut first = [fold(word), 0];
        let mut hash = mix(seed ^ first[0]);
        let mut len = length;
        if length == 8 {
            let mut rest = rest.get(8..).unwrap_or_default();
            let (word, length) = segment_word(rest);
            first[1] = fold(word);
            hash = mix(hash ^ first[1]);
            len += length;
            let mut last = length;
            while last == 8 {
                rest = rest.get(8..).unwrap_or_default();
                let (word, length) = segment_word(rest);
                hash = mix(hash ^ fold(word));
                len += length;
                last = length;
            }
        }
        Self {
            hash,
            first,
            len: len as u32,
        }
    }

    /// Finds the end of the segment alone.
    #[inline]
    fn skip(rest: &[u8]) -> Self {
        Self {
            len: memchr::memchr(b'/', rest).unwrap_or(rest.len()) as u32,
            ..FREE.key
        }
    }

    /// Whether `first` holds the whole segment.
    #[inline]
    fn is_whole(&self) -> bool {
        self.len <= 16
    }
}

/// A multiplicative step: the product's upper half stirs its lower one, which picks the slot.
#[inline]
fn mix(value: u64) -> u64 {
    let product = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// The next eight bytes of a segment, padded with zeros, and how many of them there are: fewer than eight
/// where the segment ends.
#[inline]
fn segment_word(rest: &[u8]) -> (u64, usize) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const SEVEN: u64 = 0x7f * ONES;
    let Some(bytes) = rest.first_chunk::<8>() else {
        return last_word(rest);
    };
    let word = u64::from_le_bytes(*bytes);
    // The top bit of each byte that is a slash.
    let other = word ^ (u64::from(b'/') * ONES);
    let slashes = !(((other & SEVEN) + SEVEN) | other | SEVEN);
    if slashes == 0 {
        return (word, 8);
    }
    let length = slashes.trailing_zeros() as usize / 8;
    (word & ((1 << (length * 8)) - 1), length)
}

#[inline]
fn last_word(rest: &[u8]) -> (u64, usize) {
    let mut word = 0;
    let mut length = 0;
    for &byte in rest.iter().take(7) {
        if byte == b'/' {
            break;
        }
        word |= u64::from(byte) << (length * 8);
        length += 1;
    }
    (word, length)
}

/// Turns the ASCII capitals among eight bytes into small letters.
#[inline]
fn lower_case(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let seven = word & (0x7f * ONES);
    // The top bit of each byte: is it at least `A`, is it above `Z`, is it ASCII?
    let from_a = seven + (0x80 - u64::from(b'A')) * ONES;
    let above_z = seven + (0x80 - u64::from(b'Z') - 1) * ONES;
    let capital = from_a & !above_z & !word & (0x80 * ONES);
    word | (capital >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_ends_where_the_segment_ends() {
        for text in [
            "",
            "a",
            "workspaces",
            "12345678",
            "123456789abcdef",
            "0123456789abcdef",
            "0123456789abcdef0",
            "\u{ff}\0",
        ] {
            for behind in ["", "/", "/x", "/12345678", "//"] {
                let path = format!("{text}{behind}");
                let key = Key::read::<false>(7, path.as_bytes());
                assert_eq!(key.len as usize, text.len(), "{path:?}");
                assert!(key == Key::read::<false>(7, text.as_bytes()), "{path:?}");
                assert_eq!(Key::skip(path.as_bytes()).len as usize, text.len(), "{path:?}");
            }
        }
    }

    #[test]
    fn eight_bytes_are_folded_like_one() {
        for byte in 0..=u8::MAX {
            let word = [byte, b'A', b'z', byte, 0xff, b'@', b'[', byte];
            assert_eq!(
                lower_case(u64::from_le_bytes(word)).to_le_bytes(),
                word.map(|byte| byte.to_ascii_lowercase())
            );
        }
    }
}
