//! Bars of block characters for values over time.

/// Divides the values of a history into at most `width` groups, oldest first, and returns the
/// greatest value of each group, so that a peak of one reading stays visible. Groups begin at fixed
/// points in time, so a bar keeps its height while it moves along. `count` is the number of values
/// that the history has ever received, and `kept` the number that it can hold.
pub(super) fn squeezed(
    values: impl ExactSizeIterator<Item = f32>,
    count: u64,
    kept: usize,
    width: usize,
) -> Vec<f32> {
    if width < 2 {
        return values.reduce(f32::max).into_iter().take(width).collect();
    }
    // The first and the last group may be incomplete. The size of groups grows from time to time
    // while the history fills.
    let most = kept.div_ceil(width - 1).max(1);
    let size = values.len().div_ceil(width - 1).next_power_of_two().min(most) as u64;
    let first = count - values.len() as u64;
    let mut groups: Vec<f32> = Vec::new();
    let mut last = None;
    for (place, value) in (first..).zip(values) {
        match groups.last_mut() {
            Some(greatest) if last == Some(place / size) => *greatest = greatest.max(value),
            _ => groups.push(value),
        }
        last = Some(place / size);
    }
    groups.drain(..groups.len().saturating_sub(width));
    groups
}

/// Rows of block characters, the top row first, that show values relative to `most`. A value above
/// zero always has a visible bar.
pub(super) fn rows(values: &[f32], most: f32, height: usize) -> Vec<String> {
    let steps = height * 8;
    let level = |value: f32| {
        if value <= 0.0 || most <= 0.0 {
            return 0;
        }
        ((value / most * steps as f32).round() as usize).clamp(1, steps)
    };
    let levels: Vec<usize> = values.iter().map(|&value| level(value)).collect();
    let row = |from_top: usize| {
        let below = (height - 1 - from_top) * 8;
        levels.iter().map(|&level| BARS[level.saturating_sub(below).min(8)]).collect()
    };
    (0..height).map(row).collect()
}

/// One row of bars that is never blank: a value of zero is a low line.
pub(super) fn line(values: &[f32]) -> String {
    let most = values.iter().copied().fold(0.0, f32::max);
    let bars = rows(values, most, 1).swap_remove(0);
    bars.replace(' ', "▁")
}

const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_of_one_reading_stays_visible_in_few_columns() {
        let mut values = vec![1.0f32; 120];
        values[37] = 100.0;
        for width in [1, 2, 7, 12, 50, 120, 200] {
            for count in [120, 121, 1000] {
                let shown = squeezed(values.clone().into_iter(), count, 120, width);
                assert!(shown.len() <= width, "{width}");
                assert!(shown.contains(&100.0), "{width} {count}: {shown:?}");
            }
        }
        assert!(squeezed([1.0].into_iter(), 1, 120, 0).is_empty());
    }

    #[test]
    fn groups_keep_their_values_while_they_move() {
        let values: Vec<f32> = (0..10).map(|n| n as f32).collect();
        let now = squeezed(values[..8].iter().copied(), 8, 8, 5);
        let later = squeezed(values[2..].iter().copied(), 10, 8, 5);
        assert_eq!(now, [1.0, 3.0, 5.0, 7.0]);
        assert_eq!(later, [3.0, 5.0, 7.0, 9.0]);
    }

    #[test]
    fn bars_are_relative_to_the_greatest_and_never_hide_a_value() {
        assert_eq!(line(&[0.0, 1.0, 500.0, 1000.0]), "▁▁▄█");
        assert_eq!(rows(&[0.0, 0.5, 8.0, 16.0], 16.0, 2), ["   █", " ▁██"]);
        assert_eq!(rows(&[], 1.0, 2), ["", ""]);
        assert_eq!(line(&[0.0, 0.0]), "▁▁");
    }
}
