//! Points as bytes. Whole numbers have variable length, so that a point in which little happened
//! takes some 20 bytes. Reading checks counts, spans and lengths, because a file may be damaged.

use weir_measure::stats::Reasons;

use super::super::point::Range;
use super::super::{Point, Quantiles};

/// Appends a number in LEB128: groups of seven bits, the lowest first.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a point. Its time is stored as its age at `now_ns`.
pub(super) fn put_point(out: &mut Vec<u8>, point: &Point, now_ns: u64) {
    let mut flags = 0;
    let parts = [
        (RATE, point.rate_bps.is_some()),
        (BYTES, point.queue_bytes.is_some()),
        (WAIT, point.wait.is_some()),
        (TOTAL, point.total.is_some()),
        (LATE, point.late.is_some()),
        (REASONS, point.reasons.is_some()),
        (PACKETS, point.packets_in > 0 || point.packets_out > 0),
        (QUEUE, point.queue_packets != Range::default()),
    ];
    for (flag, present) in parts {
        flags |= if present { flag } else { 0 };
    }
    out.push(flags);
    put(out, now_ns.saturating_sub(point.at_ns));
    put(out, point.span_ns);
    if flags & PACKETS != 0 {
        let counts = [point.packets_in, point.bytes_in, point.packets_out, point.bytes_out];
        counts.into_iter().for_each(|count| put(out, count));
        put(out, point.in_bps_max as u64);
        put(out, point.out_bps_max as u64);
    }
    if flags & QUEUE != 0 {
        put_range(out, point.queue_packets);
    }
    if let Some(bytes) = point.queue_bytes {
        put_range(out, bytes);
    }
    for times in [point.wait, point.total, point.late].into_iter().flatten() {
        [times.p50, times.p99, times.max, times.count].into_iter().for_each(|one| put(out, one));
    }
    if let Some(reasons) = &point.reasons {
        // The reasons are stored by name, because their order differs between versions. Numbers
        // under string keys always serialise.
        put_text(out, &serde_json::to_string(reasons).unwrap_or_default());
    }
    if let Some(rate) = point.rate_bps {
        put(out, rate);
    }
}

fn put_range(out: &mut Vec<u8>, range: Range) {
    put(out, range.min);
    out.extend((range.mean as f32).to_le_bytes());
    put(out, range.max);
}

/// Appends a text with its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

/// The bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next `n` bytes; `None` if fewer are left.
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number; `None` if the bytes are damaged.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            value |= bits.checked_shl(shift).filter(|moved| moved >> shift == bits)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number of at most [`MOST_COUNT`], so that sums of counts stay within 64 bits.
    fn count(&mut self) -> Option<u64> {
        self.number().filter(|&count| count <= MOST_COUNT)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        if length > LONGEST_TEXT {
            return None;
        }
        std::str::from_utf8(self.take(length)?).ok()
    }

    fn range(&mut self) -> Option<Range> {
        let min = self.count()?;
        let mean = f32::from_le_bytes(self.take(4)?.try_into().ok()?);
        let max = self.count()?;
        let sound = mean.is_finite() && mean >= 0.0 && min <= max;
        sound.then_some(Range { min, mean: f64::from(mean), max })
    }

    fn quantiles(&mut self) -> Option<Quantiles> {
        let (p50, p99, max) = (self.count()?, self.count()?, self.count()?);
        Some(Quantiles { p50, p99, max, count: self.count()? })
    }

    /// Drops and marks. `None` if the bytes are damaged, and `Some(None)` if they have a reason
    /// that this version does not know.
    fn reasons(&mut self) -> Option<Option<Box<Reasons>>> {
        let Ok(reasons) = serde_json::from_str::<Reasons>(self.text()?) else { return Some(None) };
        let drops = reasons.drop_counts().iter().map(|(_, count)| count);
        let marks = reasons.mark_counts().iter().map(|(_, count)| count);
        drops.chain(marks).all(|count| count <= MOST_OF_REASON).then(|| Some(Box::new(reasons)))
    }

    /// The next point, in which `at_ns` is the age of the point; `None` if the bytes are damaged.
    pub(super) fn point(&mut self) -> Option<Point> {
        let flags = self.take(1)?[0];
        let has = |flag: u8| flags & flag != 0;
        let mut point =
            Point { at_ns: self.number()?, span_ns: self.number()?, ..Point::default() };
        if point.span_ns == 0 || point.span_ns > LONGEST_SPAN {
            return None;
        }
        if has(PACKETS) {
            point.packets_in = self.count()?;
            point.bytes_in = self.count()?;
            point.packets_out = self.count()?;
            point.bytes_out = self.count()?;
            point.in_bps_max = self.count()? as f64;
            point.out_bps_max = self.count()? as f64;
        }
        if has(QUEUE) {
            point.queue_packets = self.range()?;
        }
        if has(BYTES) {
            point.queue_bytes = Some(self.range()?);
        }
        for (flag, times) in
            [(WAIT, &mut point.wait), (TOTAL, &mut point.total), (LATE, &mut point.late)]
        {
            if has(flag) {
                *times = Some(self.quantiles()?);
            }
        }
        if has(REASONS) {
            point.reasons = self.reasons()?;
        }
        if has(RATE) {
            point.rate_bps = Some(self.number()?);
        }
        Some(point)
    }
}

/// The flags of the parts that a point has.
const RATE: u8 = 1;
const BYTES: u8 = 2;
const WAIT: u8 = 4;
const TOTAL: u8 = 8;
const LATE: u8 = 16;
const REASONS: u8 = 32;
const PACKETS: u8 = 64;
const QUEUE: u8 = 128;
/// The greatest count of a point. The sum over all points of an object fits into 64 bits.
const MOST_COUNT: u64 = 1 << 51;
/// The greatest count of a reason.
const MOST_OF_REASON: u64 = 1 << 45;
/// The longest span of a point: an hour, in ns.
const LONGEST_SPAN: u64 = 3_600_000_000_000;
/// The longest text: the name of an object, or the drops and marks of a point. In bytes.
const LONGEST_TEXT: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_measure::stats::{DropReason, MarkReason};

    prop_compose! {
        fn range()(min in 0..1u64 << 40, more in 0..1u64 << 40) -> Range {
            // A mean that has no more digits than are stored.
            Range { min, mean: f64::from((min + more / 2) as f32), max: min + more }
        }
    }

    prop_compose! {
        fn quantiles()(p50 in 0..1u64 << 40, count in 1..1u64 << 30) -> Quantiles {
            Quantiles { p50, p99: p50 + 7, max: p50 + 9, count }
        }
    }

    prop_compose! {
        fn reasons()(full in 1..9u64, marks in 0..9u64) -> Reasons {
            let mut reasons = Reasons::default();
            (0..full).for_each(|_| reasons.count_drop(DropReason::QueueFull));
            (0..marks).for_each(|_| reasons.count_mark(MarkReason::ALL[0]));
            reasons
        }
    }

    prop_compose! {
        fn points()(
            age in 0..1u64 << 50,
            span_ns in 1..LONGEST_SPAN,
            packets in 0..1u64 << 40,
            queue_packets in range(),
            queue_bytes in proptest::option::of(range()),
            times in proptest::array::uniform3(proptest::option::of(quantiles())),
            reasons in proptest::option::of(reasons()),
            rate_bps in proptest::option::of(any::<u64>()),
        ) -> Point {
            let [wait, total, late] = times;
            Point {
                at_ns: NOW - age,
                span_ns,
                packets_in: packets,
                bytes_in: packets * 100,
                packets_out: packets / 2,
                bytes_out: packets * 50,
                in_bps_max: (packets * 3) as f64,
                out_bps_max: packets as f64,
                queue_packets,
                queue_bytes,
                wait,
                total,
                late,
                reasons: reasons.map(Box::new),
                rate_bps,
            }
        }
    }

    const NOW: u64 = 1 << 60;

    proptest! {
        #[test]
        fn a_point_is_read_as_it_was_written(point in points()) {
            let mut bytes = Vec::new();
            put_point(&mut bytes, &point, NOW);
            let mut rest = Bytes(&bytes);
            let read = rest.point().expect("it is sound");
            prop_assert!(rest.is_empty());
            prop_assert_eq!(Point { at_ns: NOW - read.at_ns, ..read }, point);
            // A part of the bytes is not a point.
            for end in 0..bytes.len() {
                prop_assert!(Bytes(&bytes[..end]).point().is_none());
            }
        }

        #[test]
        fn bytes_of_any_kind_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut rest = Bytes(&bytes);
            while let Some(point) = rest.point() {
                // Every sum that merging computes stays within 64 bits.
                let sum = (0..3000).fold(point.clone(), |sum, _| sum.merge(&point));
                prop_assert!(sum.packets_in >= point.packets_in);
            }
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        let read = |bytes: &[u8]| Bytes(bytes).number();
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
            Some(u64::MAX)
        );
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]), None);
        assert_eq!(read(&[0x80; 11]), None);
        let quiet = Point { at_ns: NOW, span_ns: 10_000_000_000, ..Point::default() };
        let mut bytes = Vec::new();
        put_point(&mut bytes, &quiet, NOW);
        assert!(bytes.len() < 10, "a quiet point is short: {} bytes", bytes.len());
    }
}
