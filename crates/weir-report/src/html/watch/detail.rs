//! The length of a queue over time, in the compact form in which the page stores it for zooming.
//!
//! Consecutive periods with the same constant queue length are one item. Every other period with
//! readings is an item of its own. An item consists of these numbers: how many periods without
//! readings precede it, how many periods it has, the difference of its least queue length from that
//! of the item before (zigzag), and the difference of its greatest and least queue length. If the
//! last difference is not 0, the position of the mean follows in one byte: 0 for the least queue
//! length, 255 for the greatest. All other numbers have 7 bits per byte, the low bits first; the
//! last byte of a number is below 128. The whole is base64.

use weir_measure::series::{Envelope, Period as _, Periods};
use weir_measure::watch::QueuePeriod;

/// Consecutive periods with the same constant queue length, or one period with several lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    /// The first period.
    pub(super) from: usize,
    /// The period after the last one.
    pub(super) to: usize,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) mean: f64,
}

/// Selects the packets or the bytes of a period.
pub(super) type Part = fn(&QueuePeriod) -> Envelope;

/// The items, after each `group` periods have been merged into one.
pub(super) fn items(periods: &Periods<QueuePeriod>, group: usize, part: Part) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for (place, group) in periods.as_slice().chunks(group.max(1)).enumerate() {
        let merged = group[1..].iter().fold(group[0], |mut all, period| {
            all.merge(period);
            all
        });
        let part = part(&merged);
        if part.is_empty() {
            continue;
        }
        let (low, high, mean) = (part.min(), part.max(), part.mean());
        let flat =
            |item: &Item| item.to == place && (item.low, item.high) == (low, low) && high == low;
        match items.last_mut().filter(|item| flat(item)) {
            Some(last) => last.to = place + 1,
            None => items.push(Item { from: place, to: place + 1, low, high, mean }),
        }
    }
    items
}

/// Merges 1, 2, 4, … periods into one, until there are at most `most` items. Returns the number of
/// merged periods, and the items.
pub(super) fn at_most(
    periods: &Periods<QueuePeriod>,
    most: usize,
    part: Part,
) -> (usize, Vec<Item>) {
    let mut group = 1;
    loop {
        let found = items(periods, group, part);
        if found.len() <= most.max(1) {
            return (group, found);
        }
        group *= 2;
    }
}

pub(super) fn encode(items: &[Item]) -> String {
    let (mut bytes, mut end, mut before) = (Vec::with_capacity(items.len() * 5), 0, 0i64);
    for item in items {
        number(&mut bytes, (item.from - end) as u64);
        number(&mut bytes, (item.to - item.from) as u64);
        let step = item.low as i64 - before;
        number(&mut bytes, ((step << 1) ^ (step >> 63)) as u64);
        let more = item.high - item.low;
        number(&mut bytes, more);
        if more > 0 {
            let place = (item.mean - item.low as f64) / more as f64 * 255.0;
            bytes.push(place.round().clamp(0.0, 255.0) as u8);
        }
        (end, before) = (item.to, item.low as i64);
    }
    base64(&bytes)
}

fn number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte))
            << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACKETS: Part = |period| period.packets;

    #[test]
    fn the_text_is_base64() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        let item = |from, to, low, high, mean| Item { from, to, low, high, mean };
        let items = [item(2, 3, 1, 1, 1.0), item(3, 10, 0, 300, 300.0)];
        // First item: 2 periods without readings, 1 period, the step +1 (zigzag 2), the difference
        // 0. Second item: 0, 7, the step −1 (zigzag 1), the difference 300 (bytes 172 and 2), the
        // position 255 of the mean.
        assert_eq!(encode(&items), base64(&[2, 1, 2, 0, 0, 7, 1, 172, 2, 255]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn one_reading_among_ten_million_is_seen_however_coarse(
            at in 0u64..10_000_000,
            gap in 40u64..100_000,
            most in 1usize..2000,
        ) {
            let mut periods = Periods::<QueuePeriod>::new(0, 1024, 1 << 12);
            let mut read = |from: u64, to: u64, qlen: u32| {
                if to > from {
                    let span = (from * gap, (to - 1) * gap);
                    periods.spread(span, to - from, |p, weight| p.include(qlen, 0, weight));
                }
            };
            read(0, at, 3);
            read(at, at + 1, 997);
            read(at + 1, 10_000_000, 3);
            let (group, found) = at_most(&periods, most, PACKETS);
            prop_assert!(found.len() <= most);
            let peak = found.iter().find(|item| item.high == 997).expect("the peak is there");
            let width = periods.width_ns() * group as u64;
            prop_assert!(
                peak.from as u64 * width <= at * gap && at * gap < peak.to as u64 * width,
                "the peak stays at its time"
            );
            prop_assert_eq!(found.iter().filter(|item| item.high == 997).count(), 1);
        }
    }
}
