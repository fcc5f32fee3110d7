//! The trie in which the templates are laid before they are made into states.

use std::collections::{BTreeSet, HashMap};

use super::{AutomatonError, LiteralId, Mark, PatternId};
use crate::pattern::{Kinds, Pattern, PatternKey};
use crate::template::{Segment, Template};

#[derive(Default)]
pub(super) struct Node {
    pub(super) literals: HashMap<LiteralId, usize>,
    pub(super) patterns: Vec<PatternEdge>,
    pub(super) ends: Vec<Mark>,
    pub(super) tails: Vec<Mark>,
}

/// Where a parameter leads, with the names it has there, for readable witnesses.
pub(super) struct PatternEdge {
    pub(super) pattern: PatternId,
    pub(super) child: usize,
    pub(super) names: BTreeSet<Box<str>>,
}

pub(super) struct Trie {
    fold: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) literals: HashMap<Box<str>, LiteralId>,
    pub(super) literal_texts: Vec<Box<str>>,
    pattern_keys: HashMap<PatternKey, PatternId>,
    pub(super) patterns: Vec<Pattern>,
}

impl Trie {
    pub(super) fn new(fold: bool) -> Self {
        Self {
            fold,
            nodes: vec![Node::default()],
            literals: HashMap::new(),
            literal_texts: Vec::new(),
            pattern_keys: HashMap::new(),
            patterns: Vec::new(),
        }
    }

    pub(super) fn insert(&mut self, mark: Mark, template: &Template, kinds: &Kinds) -> Result<(), AutomatonError> {
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
