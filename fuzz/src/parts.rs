//! Inputs with several parts, which zeros separate. A seed is thus a readable file, and the fuzzer
//! can change the length of one part without damage to the others.

/// The first `N` parts, which are text, and the bytes after them. Missing parts are empty.
///
/// Returns `None` if one of the texts is not UTF-8.
pub fn split<const N: usize>(data: &[u8]) -> Option<([&str; N], &[u8])> {
    let mut parts = data.splitn(N + 1, |&byte| byte == 0);
    let mut texts = [""; N];
    for text in &mut texts {
        *text = std::str::from_utf8(parts.next().unwrap_or_default()).ok()?;
    }
    Some((texts, parts.next().unwrap_or_default()))
}

/// The same content under each name that a specification may give to a file.
pub fn files(content: &str) -> std::collections::BTreeMap<String, String> {
    ["f", "f.csv", "f.dist"].map(|name| (name.to_owned(), content.to_owned())).into()
}
