//! "Did you mean": finds the allowed word that is closest to a wrong one.

/// The candidate closest to `word`, if it is close enough for `word` to be a typing error: only one
/// letter differs, or at most a third of the letters.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    if word.len() > LONGEST {
        return None;
    }
    let limit = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|&(distance, candidate)| distance <= limit && distance < candidate.chars().count())
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: the least number of insertions, deletions and changes of a letter, and of swaps
/// of neighbouring letters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Words longer than this are not typing errors of known words.
const LONGEST: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_slips() {
        for (a, b, d) in [
            ("delay", "delay", 0),
            ("dealy", "delay", 1),
            ("dely", "delay", 1),
            ("queu", "queue", 1),
            ("", "bw", 2),
        ] {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }

    #[test]
    fn only_close_words_are_suggested() {
        let words = ["bw", "delay", "queue", "jitter"];
        assert_eq!(closest("dealy", words), Some("delay"));
        assert_eq!(closest("BW", words), Some("bw"));
        assert_eq!(closest("xyzzy", words), None);
    }
}
