//! Flow sets: the flows of a measurement with their weights and packet lengths, written as one
//! word.
//!
//! ```text
//! SET   = GROUP {"," GROUP}                                     500:w1,250:w2,250:w4
//! GROUP = COUNT {":" OPTION}                                    16k:w8:imix
//! OPTION = w WEIGHT | LENGTHS | max BYTES | p PRIORITY          in any order, each at most once
//! LENGTHS = l BYTES | l LEAST "-" MOST | bimodal | imix         1500 bytes when none is given
//! RANGE = COUNT ".." COUNT {":" OPTION}                         1..32k: powers of two and ends
//! ```
//!
//! `k` after a count means 1024, `M` 1024 × 1024. Flows are numbered from 0, group after group.

use std::fmt;

use weir_core::Nanos;
use weir_core::sched::{FlowSpec, MAX_PACKET, MAX_PRIORITY, MAX_WEIGHT, MIN_PACKET};

use crate::lengths::Lengths;

/// Flows with equal properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The number of flows; at least 1.
    pub count: u32,
    /// The weight of each flow.
    pub weight: u32,
    /// The priority of each flow; 0 is the highest.
    pub priority: u32,
    /// The lengths of the packets.
    pub lengths: Lengths,
    /// The largest packet of each flow in bytes, as the scheduler knows it. No packet is larger.
    pub lmax: u32,
}

impl Default for Group {
    fn default() -> Self {
        Self { count: 1, weight: 1, priority: 0, lengths: Lengths::Fixed(1500), lmax: 1500 }
    }
}

/// One flow of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The flow's number, from 0.
    pub number: u32,
    /// The index of the flow's group in the set.
    pub group: usize,
    /// The weight.
    pub weight: u32,
    /// The priority; 0 is the highest.
    pub priority: u32,
    /// The largest packet in bytes.
    pub lmax: u32,
    /// The lengths of the packets.
    pub lengths: Lengths,
}

impl Flow {
    /// The description of the flow that the scheduler receives.
    pub fn spec(&self) -> FlowSpec {
        FlowSpec {
            flow: self.number,
            weight: self.weight,
            max_packet: self.lmax,
            priority: self.priority,
            deadline: Nanos::ZERO,
            ..FlowSpec::default()
        }
    }
}

/// A validated set of flows: at least one flow, and no total beyond its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSet {
    groups: Vec<Group>,
}

impl FlowSet {
    /// A set of these groups.
    ///
    /// # Errors
    /// [`FlowSetError`] when there is no group, a value is out of its range, or a total exceeds its
    /// limit.
    pub fn new(groups: Vec<Group>) -> Result<Self, FlowSetError> {
        let bad = |option, value: u32, allowed: &str| {
            Err(FlowSetError::range(option, &value.to_string(), allowed))
        };
        for group in &groups {
            if !(1..=MAX_FLOWS).contains(&group.count) {
                return bad("a number of flows", group.count, &format!("1..{MAX_FLOWS}"));
            }
            if !(1..=MAX_WEIGHT).contains(&group.weight) {
                return bad("a weight", group.weight, &format!("1..{MAX_WEIGHT}"));
            }
            if group.priority > MAX_PRIORITY {
                return bad("a priority", group.priority, &format!("0..{MAX_PRIORITY}"));
            }
            let least = group.lengths.longest().max(MIN_PACKET);
            if !(least..=MAX_PACKET).contains(&group.lmax) {
                return bad(
                    "the largest packet",
                    group.lmax,
                    &format!("{least}..{MAX_PACKET} bytes"),
                );
            }
        }
        if groups.is_empty() {
            return Err(FlowSetError::Empty);
        }
        let flows: u64 = groups.iter().map(|g| u64::from(g.count)).sum();
        if flows > u64::from(MAX_FLOWS) {
            return Err(FlowSetError::Flows(flows));
        }
        let set = Self { groups };
        if set.total_weight() > MAX_TOTAL_WEIGHT {
            Err(FlowSetError::Weights(set.total_weight()))
        } else {
            Ok(set)
        }
    }

    /// The groups, in the order in which they were given.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// All flows in the order of their numbers.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let alike =
            self.groups.iter().enumerate().flat_map(|(index, group)| {
                std::iter::repeat_n((index, group), group.count as usize)
            });
        (0..).zip(alike).map(|(number, (index, group))| {
            let &Group { weight, priority, lengths, lmax, .. } = group;
            Flow { number, group: index, weight, priority, lmax, lengths }
        })
    }

    /// The number of flows.
    pub fn len(&self) -> u32 {
        self.groups.iter().map(|group| group.count).sum()
    }

    /// Always false, since a set has at least one flow.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The sum of the weights.
    pub fn total_weight(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count) * u64::from(group.weight)).sum()
    }

    /// The longest packet of all flows, in bytes.
    pub fn longest(&self) -> u32 {
        self.groups.iter().map(|group| group.lengths.longest()).max().unwrap_or(0)
    }
}

impl std::str::FromStr for FlowSet {
    type Err = FlowSetError;

    fn from_str(text: &str) -> Result<Self, FlowSetError> {
        Self::new(text.split(',').map(|word| group(word.trim())).collect::<Result<_, _>>()?)
    }
}

/// The notation of the set. Options at their defaults are left out, except the weight.
impl fmt::Display for FlowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, group) in self.groups.iter().enumerate() {
            write!(f, "{}{}:w{}", if n == 0 { "" } else { "," }, group.count, group.weight)?;
            if group.lengths != Lengths::Fixed(1500) {
                write!(f, ":{}", group.lengths)?;
            }
            if group.lmax != group.lengths.longest().max(MIN_PACKET) {
                write!(f, ":max{}", group.lmax)?;
            }
            if group.priority != 0 {
                write!(f, ":p{}", group.priority)?;
            }
        }
        Ok(())
    }
}

/// The sets that a word describes: one set, or for a range one set for each power of two within it
/// and for its two ends.
///
/// # Errors
/// [`FlowSetError`] when the word describes no set.
pub fn sweep(text: &str) -> Result<Vec<FlowSet>, FlowSetError> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(vec![text.parse()?]) };
    if text.contains(',') {
        return Err(FlowSetError::RangeInSet);
    }
    let (last, options) =
        rest.split_once(':').map_or((rest, ""), |(last, _)| (last, &rest[last.len()..]));
    let (first, last) = (count(first)?, count(last)?);
    if first > last {
        return Err(FlowSetError::Backwards(text.to_owned()));
    }
    let mut counts = vec![first];
    counts.extend(
        (0..32).map(|power| 1u32 << power).filter(|power| (first + 1..last).contains(power)),
    );
    counts.extend((last > first).then_some(last));
    counts.iter().map(|count| format!("{count}{options}").parse()).collect()
}

/// The reason why a text is not a flow set. Each message names the fault and gives an example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowSetError {
    /// There is no group, or a group is empty.
    #[error("a flow set needs at least one group; for example {EXAMPLE}")]
    Empty,
    /// The word at the start of a group is not a number of flows.
    #[error(
        "`{0}` is not a number of flows: allowed is 1..{MAX_FLOWS}, with k for 1024; for example \
         {EXAMPLE}"
    )]
    Count(String),
    /// The word after a colon is not an option.
    #[error(
        "`{0}` is not an option of a group: allowed are wWEIGHT, lBYTES, lLEAST-MOST, bimodal, \
         imix, maxBYTES and pPRIORITY; for example 100:w2:l64-1500"
    )]
    Option(String),
    /// An option was given twice.
    #[error("`{0}` gives {1} a second time; give each option once, as in 100:w2:imix")]
    Twice(String, &'static str),
    /// A value is out of its range.
    #[error("`{word}`: {option} is within {allowed}; for example {EXAMPLE}")]
    Range {
        /// The name of the option.
        option: &'static str,
        /// The word with the value.
        word: String,
        /// The allowed values.
        allowed: String,
    },
    /// There are too many flows.
    #[error(
        "the groups have {0} flows together, and at most {MAX_FLOWS} are allowed; for example \
         {EXAMPLE}"
    )]
    Flows(u64),
    /// The sum of the weights is too large.
    #[error(
        "the weights add up to {0}, and at most {MAX_TOTAL_WEIGHT} is allowed; for example \
         {EXAMPLE}"
    )]
    Weights(u64),
    /// A range is combined with other groups.
    #[error(
        "a range of numbers of flows stands alone: write 1..32k, or give --flows several times"
    )]
    RangeInSet,
    /// The range ends before it begins.
    #[error("`{0}` ends before it begins; for example 1..32k")]
    Backwards(String),
}

impl FlowSetError {
    fn range(option: &'static str, word: &str, allowed: &str) -> Self {
        Self::Range { option, word: word.to_owned(), allowed: allowed.to_owned() }
    }
}

fn group(text: &str) -> Result<Group, FlowSetError> {
    let mut words = text.split(':');
    let first = words.next().filter(|word| !word.is_empty());
    let mut group = Group { count: count(first.ok_or(FlowSetError::Empty)?)?, ..Group::default() };
    let (mut weight, mut priority, mut lengths, mut lmax) = (None, None, None, None);
    for word in words {
        if let Some(value) = word.strip_prefix("max") {
            let value = number(value, MIN_PACKET, MAX_PACKET);
            let wrong = || {
                FlowSetError::range(
                    "the largest packet",
                    word,
                    &format!("{MIN_PACKET}..{MAX_PACKET} bytes"),
                )
            };
            once(&mut lmax, value.ok_or_else(wrong)?, word, "the largest packet")?;
        } else if let Some(value) = word.strip_prefix('w') {
            let value = number(value, 1, MAX_WEIGHT);
            let wrong = || FlowSetError::range("a weight", word, &format!("1..{MAX_WEIGHT}"));
            once(&mut weight, value.ok_or_else(wrong)?, word, "the weight")?;
        } else if let Some(value) = word.strip_prefix('p') {
            let value = number(value, 0, MAX_PRIORITY);
            let wrong = || FlowSetError::range("a priority", word, &format!("0..{MAX_PRIORITY}"));
            once(&mut priority, value.ok_or_else(wrong)?, word, "the priority")?;
        } else if let Some(value) = Lengths::parse(word) {
            once(&mut lengths, value, word, "the lengths")?;
        } else if word.starts_with('l') {
            return Err(FlowSetError::range(
                "a length",
                word,
                &format!("1..{MAX_PACKET} bytes, as lBYTES or lLEAST-MOST"),
            ));
        } else {
            return Err(FlowSetError::Option(word.to_owned()));
        }
    }
    group.weight = weight.unwrap_or(group.weight);
    group.priority = priority.unwrap_or(group.priority);
    group.lengths = lengths.unwrap_or(group.lengths);
    group.lmax = lmax.unwrap_or(group.lengths.longest().max(MIN_PACKET));
    Ok(group)
}

/// Stores the value of an option, and refuses a second value.
fn once<T>(
    slot: &mut Option<T>,
    value: T,
    word: &str,
    what: &'static str,
) -> Result<(), FlowSetError> {
    if slot.replace(value).is_some() {
        Err(FlowSetError::Twice(word.to_owned(), what))
    } else {
        Ok(())
    }
}

fn number(text: &str, least: u32, most: u32) -> Option<u32> {
    text.parse().ok().filter(|value| (least..=most).contains(value))
}

/// Parses a number of flows with an optional suffix `k` or `M`.
fn count(text: &str) -> Result<u32, FlowSetError> {
    let text = text.trim();
    let scaled =
        |suffixes: [char; 2], scale: u32| text.strip_suffix(suffixes).map(|digits| (digits, scale));
    let (digits, scale) =
        scaled(['k', 'K'], 1024).or_else(|| scaled(['m', 'M'], 1024 * 1024)).unwrap_or((text, 1));
    let value = digits.parse::<u32>().ok().and_then(|value| value.checked_mul(scale));
    value
        .filter(|value| (1..=MAX_FLOWS).contains(value))
        .ok_or_else(|| FlowSetError::Count(text.to_owned()))
}

/// The maximum number of flows in a set.
pub const MAX_FLOWS: u32 = 1_048_576;
/// The maximum sum of the weights in a set: 65,536 flows of the largest weight.
pub const MAX_TOTAL_WEIGHT: u64 = 1 << 32;
/// The example in error messages.
const EXAMPLE: &str = "500:w1,250:w2,250:w4";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> String {
        sweep(text).unwrap_err().to_string()
    }

    #[test]
    fn the_usual_notation_is_read_and_written_back() {
        let set: FlowSet = "500:w1,250:w2,250:w4".parse().unwrap();
        assert_eq!((set.len(), set.total_weight(), set.longest()), (1000, 2000, 1500));
        assert_eq!(set.to_string(), "500:w1,250:w2,250:w4");
        let flow = set.flows().nth(500).unwrap();
        assert_eq!((flow.number, flow.group, flow.weight), (500, 1, 2));
        let set: FlowSet = "2k:imix:w3, 1:p5:max9000:l64-1500".parse().unwrap();
        assert_eq!(set.to_string(), "2048:w3:imix,1:w1:l64-1500:max9000:p5");
        assert_eq!("7:l40".parse::<FlowSet>().unwrap().groups()[0].lmax, MIN_PACKET);
    }

    #[test]
    fn a_range_means_the_powers_of_two_in_it_and_its_ends() {
        let counts = |text| sweep(text).unwrap().iter().map(FlowSet::len).collect::<Vec<_>>();
        assert_eq!(counts("1..16"), [1, 2, 4, 8, 16]);
        assert_eq!(counts("3..9:w2"), [3, 4, 8, 9]);
        assert_eq!(counts("1..32k").last(), Some(&32_768));
        assert_eq!(counts("5..5"), [5]);
        assert_eq!(sweep("1..2:w7:imix").unwrap()[1].to_string(), "2:w7:imix");
    }

    #[test]
    fn messages_name_the_word_what_is_allowed_and_an_example() {
        for (text, word, allowed) in [
            ("", "at least one group", "500:w1"),
            ("x", "`x`", "1..1048576"),
            ("0:w1", "`0`", "1..1048576"),
            ("2M", "`2M`", "1..1048576"),
            ("5:w0", "`w0`", "1..65536"),
            ("5:w65537", "`w65537`", "1..65536"),
            ("5:w", "`w`", "1..65536"),
            ("5:max63", "`max63`", "64..65536"),
            ("5:max100", "`100`", "1500..65536"),
            ("5:l0", "`l0`", "1..65536"),
            ("5:p64", "`p64`", "0..63"),
            ("5:q", "`q`", "wWEIGHT"),
            ("5:w1:w2", "`w2`", "once"),
            ("1M,1", "1048577 flows", "1048576"),
            ("128k:w65536", "8589934592", "4294967296"),
            ("1..4,5", "stands alone", "1..32k"),
            ("9..3", "`9..3`", "1..32k"),
            ("1..", "``", "1..1048576"),
        ] {
            let message = message(text);
            assert!(message.contains(word) && message.contains(allowed), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9wlpmaxikKM:,. -]{0,40}") {
            if let Ok(sets) = sweep(&text) {
                for set in sets {
                    prop_assert_eq!(set.to_string().parse::<FlowSet>(), Ok(set));
                }
            }
        }

        #[test]
        fn what_is_written_is_read_back(
            groups in proptest::collection::vec((1u32..1000, 1u32..=65_536, 0u32..64, 1u32..1500, 0u32..9, 1500u32..65_537), 1..6),
        ) {
            let groups =
                groups.into_iter().map(|(count, weight, priority, length, which, lmax)| {
                    let lengths = match which {
                        0 => Lengths::Bimodal,
                        1 => Lengths::Imix,
                        2..5 => Lengths::Uniform(length, 1500),
                        _ => Lengths::Fixed(length),
                    };
                    Group { count, weight, priority, lengths, lmax }
                });
            let set = FlowSet::new(groups.collect()).unwrap();
            prop_assert_eq!(set.flows().count(), set.len() as usize);
            prop_assert_eq!(set.to_string().parse::<FlowSet>(), Ok(set));
        }
    }
}
