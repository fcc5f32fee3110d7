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

/// Whether these many templates can be made into states within some limits; each has a literal or a parameter in every
/// place, drawn so that each run has the same ones.
fn is_built(count: usize, places: usize, literals: u32, limits: Limits) -> bool {
    let mut drawn: u32 = 1;
    let mut draw = |of: u32| {
        drawn = drawn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (drawn >> 16) % of
    };
    let mut trie = Trie::new(false);
    for mark in 0..count {
        let text: String = (0..places)
            .map(|place| match draw(2) {
                0 => format!("/{{p{place}}}"),
                _ => format!("/x{}", draw(literals)),
            })
            .collect();
        trie.insert(mark as Mark, &Template::parse(&text).unwrap(), &Kinds::default())
            .unwrap();
    }
    match Builder::new(&trie, limits).run() {
        Ok(_) => true,
        Err(AutomatonError::TooManyStates) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn templates_that_overlap_in_too_many_ways_are_refused_before_they_fill_the_memory() {
    let limits = |states, visits| Limits { states, visits };
    let none = limits(usize::MAX, usize::MAX);
    // Many states that stand for few nodes each.
    assert!(is_built(100, 4, 30, none));
    assert!(!is_built(100, 4, 30, limits(100, usize::MAX)));
    // Few states that stand for many.
    assert!(is_built(400, 6, 2, limits(2_000, usize::MAX)));
    assert!(!is_built(400, 6, 2, limits(2_000, 1_000)));
}
