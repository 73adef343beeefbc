//! Words of `tc netem`, for messages about specifications that use its language.

/// Words at the place of a keyword, each with its equivalent in Weir's language.
const KEYWORDS: [(&str, &str); 3] =
    [("rate", "`bw`"), ("limit", "`queue`"), ("distribution", "`jitter TIME normal`")];

/// Words at the place of a value: the keyword before it, netem's word, and Weir's equivalent.
const VALUES: [(&str, &str, &str); 3] = [
    ("jitter", "distribution", "`jitter TIME normal`"),
    ("loss", "random", "`loss P`"),
    ("loss", "gemodel", "`loss K,p,H,r`, which are netem's 1-k, p, 1-h and r, as fractions"),
];

/// A label with the meaning of netem's word at the place of a keyword; `None` for other words.
pub(crate) fn keyword(word: &str) -> Option<String> {
    KEYWORDS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| label(ours))
}

/// A label with the meaning of netem's word at the place of a value of `keyword`; `None` for other
/// words.
pub(crate) fn value(keyword: &str, word: &str) -> Option<String> {
    let is_meant =
        |(before, theirs, _): &&(&str, &str, &str)| (*before, *theirs) == (keyword, word);
    VALUES.iter().find(is_meant).map(|(.., ours)| label(ours))
}

fn label(ours: &str) -> String {
    format!("netem's word; here it is {ours}")
}
