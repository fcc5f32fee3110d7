//! Consistent hashing: requests with one key go to one endpoint, and keep going there when others come and leave.
//!
//! Each endpoint gives each key a score, and the highest among those that take requests wins (rendezvous hashing,
//! Thaler and Ravishankar 1998). When one of n endpoints leaves, its keys alone move, about 1/n of all, and spread
//! over the others; an endpoint that is out for a while gives its keys to the second of each and takes them back. Nothing
//! is built when addresses change, and all replicas agree without talking, as the score depends on the address and the
//! key alone. Its cost grows with the number of endpoints: a multiplication for each.

use http::HeaderMap;
use route_contract::classify::Classifier;
use route_contract::contract::FamilyId;
use route_contract::ownership::TemplateId;
use route_contract::template::Segment;

use crate::config;

/// FNV-1a with 64 bits, finished by a mixer, since neighbouring keys such as `w1` and `w2` must not be neighbours.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(hash)
}

/// What the endpoint with this seed bids for this key.
pub(super) fn score(seed: u64, key: u64) -> u64 {
    mix(seed ^ key)
}

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Where a family's key is found in a request.
#[derive(Clone, Debug)]
pub struct Keys(Source);

#[derive(Clone, Debug)]
enum Source {
    Nowhere,
    Header(http::HeaderName),
    /// By template: the parameter's segment, where the template has it.
    Parameter(Vec<Option<Place>>),
}

/// A parameter's place in a path.
#[derive(Clone, Debug)]
struct Place {
    /// Segments before it.
    index: usize,
    /// Bytes of its segment that are not its value.
    prefix: usize,
    suffix: usize,
}

impl Keys {
    /// Finds the configured key in the templates of a family.
    pub fn new(affinity: Option<&config::Affinity>, family: FamilyId, classifier: &Classifier) -> Self {
        Self(match affinity {
            None => Source::Nowhere,
            Some(config::Affinity::Header(name)) => Source::Header(name.clone()),
            Some(config::Affinity::Parameter(name)) => {
                let ownership = classifier.ownership();
                let templates = ownership.templates().map(|(mark, template)| {
                    let own = ownership.family_of(TemplateId(mark)) == Some(family);
                    let segments = template.segments().iter().enumerate();
                    segments.filter(|_| own).find_map(|(index, segment)| match segment {
                        Segment::Parameter(parameter) if *parameter.name == **name => Some(Place {
                            index,
                            prefix: parameter.prefix.len(),
                            suffix: parameter.suffix.len(),
                        }),
                        _ => None,
                    })
                });
                Source::Parameter(templates.collect())
            }
        })
    }

    /// Whether no request can have a key, as none of the family's templates has the parameter.
    pub fn are_impossible(&self) -> bool {
        matches!(&self.0, Source::Parameter(places) if places.iter().all(Option::is_none))
    }

    /// The key of a request, hashed; none where it has none. `target` is the raw target, `template` what it matched.
    pub fn of(&self, target: &[u8], template: Option<TemplateId>, headers: &HeaderMap) -> Option<u64> {
        match &self.0 {
            Source::Nowhere => None,
            Source::Header(name) => headers.get(name).map(|value| hash(value.as_bytes())),
            Source::Parameter(places) => {
                let place = places.get(usize::try_from(template?.0).ok()?)?.as_ref()?;
                let path = target.split(|byte| *byte == b'?').next()?;
                // What stands before the first slash is empty.
                let segment = path.split(|byte| *byte == b'/').nth(place.index + 1)?;
                let end = segment.len().checked_sub(place.suffix)?;
                let value = segment.get(place.prefix..end).filter(|value| !value.is_empty())?;
                Some(hash(value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use route_contract::contract::Contract;
    use route_contract::diagnostic::Source as Text;
    use std::path::Path;

    fn winner(seeds: &[u64], key: u64) -> usize {
        (0..seeds.len()).max_by_key(|&index| score(seeds[index], key)).unwrap()
    }

    #[test]
    fn an_endpoint_that_leaves_moves_its_own_keys_alone() {
        let seeds: Vec<u64> = (1..=10).map(|n| hash(format!("10.0.0.{n}:80").as_bytes())).collect();
        let keys: Vec<u64> = (0..10_000).map(|n| hash(format!("w{n}").as_bytes())).collect();
        let mut counts = [0_usize; 10];
        for &key in &keys {
            counts[winner(&seeds, key)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        let left = &seeds[..9];
        for &key in &keys {
            let before = winner(&seeds, key);
            assert!(before == 9 || winner(left, key) == before);
        }
        let mut taken = [0_usize; 9];
        for &key in keys.iter().filter(|&&key| winner(&seeds, key) == 9) {
            taken[winner(left, key)] += 1;
        }
        assert!(taken.iter().all(|count| (70..160).contains(count)), "{taken:?}");
    }

    #[test]
    fn a_key_is_read_from_the_raw_path_or_from_a_header() {
        const CONTRACT: &str = "version = 1\n[[family]]\nname = \"e\"\nclaims = [\"/w/{workspace}/x/**\"]\nroutes = \
            [\"/w/{workspace}/x\", \"/w/{workspace}/x/img-{id}.png\"]\n[[family]]\nname = \"w\"\nclaims = [\"/w/{workspace}/**\", \"/list\"]\n";
        let contract = Contract::load_with(Path::new("c"), &|_| Ok(Text::new("c", CONTRACT))).unwrap();
        let classifier = Classifier::new(&contract).unwrap();
        let keys = |affinity: &str, family| Keys::new(Some(&affinity.parse().unwrap()), FamilyId(family), &classifier);
        let of = |keys: &Keys, target: &str| {
            let found = classifier.classify(target.as_bytes());
            keys.of(target.as_bytes(), found.template, &HeaderMap::new())
        };
        let workspace = keys("param:workspace", 1);
        assert_eq!(of(&workspace, "/w/w1/files?workspace=w2"), Some(hash(b"w1")));
        assert_eq!(of(&workspace, "/w/a%2Fb"), Some(hash(b"a%2Fb")));
        assert_eq!(of(&workspace, "/list"), None);
        // Another family's templates have the parameter too, but its requests are not this family's.
        assert_eq!(of(&workspace, "/w/w1/x"), None);
        let id = keys("param:id", 0);
        assert_eq!(of(&id, "/w/w1/x/img-77.png"), Some(hash(b"77")));
        assert_eq!(of(&id, "/w/w1/x"), None);
        assert!(!id.are_impossible() && keys("param:agent", 0).are_impossible());
        let header = keys("header:x-route-workspace", 0);
        let mut headers = HeaderMap::new();
        assert_eq!(header.of(b"/w/w1/x", None, &headers), None);
        headers.insert("x-route-workspace", "w9".parse().unwrap());
        assert_eq!(header.of(b"/w/w1/x", None, &headers), Some(hash(b"w9")));
        assert_eq!(
            Keys::new(None, FamilyId(0), &classifier).of(b"/w/w1/x", None, &headers),
            None
        );
    }
}
