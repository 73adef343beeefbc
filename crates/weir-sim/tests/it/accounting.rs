//! Long runs in which every packet is accounted for. `make billion` runs one that is a hundred
//! times as long.

#[path = "../../examples/billion/passage.rs"]
mod passage;

#[test]
fn ten_million_packets_through_the_engine_are_all_accounted_for() {
    let mut last = None;
    let sent = passage::run(10_000_000, |_, accounts| last = Some(*accounts));
    let sent = sent.unwrap_or_else(|accounts| panic!("they do not balance: {accounts}"));
    assert!((9_999_999..=10_000_001).contains(&sent), "{sent}");
    let last = last.expect("every part is reported");
    // A tenth more than the capacity arrives. One packet in a hundred is lost, and one in a hundred
    // is copied.
    assert!(last.dropped > 900_000 && last.copied > 80_000, "{last}");
}
