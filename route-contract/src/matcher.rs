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
    hash: u64,
    state: StateId,
    next: StateId,
    text: u32,
    len: u32,
}

const FREE: Slot = Slot {
    hash: 0,
    state: StateId::MAX,
    next: DEAD,
    text: 0,
    len: 0,
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
                    hash: hash::<false>(id, text),
                    state: id,
                    next,
                    text: start,
                    len: text.len() as u32,
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
        let mut at = slot.hash as usize & last;
        while self.slots[at].state != StateId::MAX {
            at = (at + 1) & last;
        }
        self.slots[at] = slot;
    }

    /// The decision on a path, taken as it stands; `FOLD` reads its letters as lower case.
    pub fn decide<const FOLD: bool>(&self, path: &[u8]) -> Decision {
        let Some(path) = path.strip_prefix(b"/") else {
            return Decision::UNCLAIMED;
        };
        let mut at = ROOT;
        for segment in path.split(|byte| *byte == b'/') {
            if self.is_final(at) {
                break;
            }
            at = self.step::<FOLD>(at, segment);
        }
        self.decision(at)
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
        if segment.is_empty() {
            return state.empty;
        }
        if state.has_literals
            && let Some(next) = self.literal::<FOLD>(at, segment)
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
    fn literal<const FOLD: bool>(&self, at: StateId, segment: &[u8]) -> Option<StateId> {
        let hash = hash::<FOLD>(at, segment);
        let last = self.slots.len() - 1;
        let mut index = hash as usize & last;
        loop {
            let slot = self.slots.get(index)?;
            if slot.state == StateId::MAX {
                return None;
            }
            if slot.hash == hash && slot.state == at {
                let text = self.texts.get(slot.text as usize..(slot.text + slot.len) as usize)?;
                let equal = if FOLD {
                    text.eq_ignore_ascii_case(segment)
                } else {
                    text == segment
                };
                if equal {
                    return Some(slot.next);
                }
            }
            index = (index + 1) & last;
        }
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

/// A multiplicative hash of a state and a segment, eight bytes at a time. Which segments collide is fixed by
/// the contract, so that a client can gain nothing by choosing its bytes.
#[inline]
fn hash<const FOLD: bool>(state: StateId, segment: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |seed: u64, word: u64| {
        let product = u128::from(seed ^ word) * u128::from(FACTOR);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let fold = |word: u64| if FOLD { lower_case(word) } else { word };
    let mut value = u64::from(state) << 32 | segment.len() as u64;
    let (words, rest) = segment.as_chunks::<8>();
    for word in words {
        value = mix(value, fold(u64::from_le_bytes(*word)));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let value = mix(value, fold(u64::from_le_bytes(last)));
    value ^ (value >> 32)
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
