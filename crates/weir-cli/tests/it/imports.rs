//! Finds circles of imports between the files of a crate.
//!
//! A file imports another file if it names something that the other file defines, either in a `use`
//! or by a path in its code. A name that a module only re-exports (`pub use child::Name`) belongs
//! to the file that defines it. Re-exports and `mod` declarations do not count as imports, and
//! neither do unit tests. Method calls are not detected.

use std::collections::{BTreeMap, BTreeSet};

/// The imports of one crate: for each file, the files that it imports. Files are named by their
/// paths below `src`.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// Reads the imports of a crate from the texts of its files, by their paths below `src`.
pub(crate) fn read(texts: &BTreeMap<String, String>) -> Imports {
    let mut modules = Modules::default();
    for root in ["lib.rs", "main.rs"] {
        modules.add_file(texts, root, Vec::new());
    }
    modules.imports()
}

/// The groups of files that import one another, directly or through other files.
pub(crate) fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|file| (file, reachable(imports, file))).collect();
    let mut groups: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for (file, reached) in &reach {
        let group: BTreeSet<String> = reached
            .iter()
            .filter(|other| reach.get(**other).is_some_and(|back| back.contains(*file)))
            .map(|other| (*other).clone())
            .collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

/// The files that `file` imports, directly or through other files.
fn reachable<'a>(imports: &'a Imports, file: &String) -> BTreeSet<&'a String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = imports.get(file).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            open.extend(imports.get(next).into_iter().flatten());
        }
    }
    seen
}

/// All modules of a crate by path.
#[derive(Default)]
struct Modules(BTreeMap<Vec<String>, Module>);

/// The content of one module.
#[derive(Default)]
struct Module {
    file: String,
    /// The names that the module's `use` statements bind, each with its path.
    bound: BTreeMap<String, Vec<String>>,
    /// The modules from which everything is imported.
    globs: Vec<Vec<String>>,
    /// The names of the items that the module defines.
    items: BTreeSet<String>,
    /// The paths that the module names, except in re-exports.
    named: Vec<Vec<String>>,
}

impl Modules {
    /// Reads a file, if it exists, and the files of the modules that it declares.
    fn add_file(&mut self, texts: &BTreeMap<String, String>, file: &str, module: Vec<String>) {
        let Some(text) = texts.get(file) else { return };
        let file = file.to_owned();
        let mut reader = Reader { tokens: tokens(text), at: 0, file, children: Vec::new() };
        reader.module(module, &mut self.0);
        for child in reader.children {
            let base = child.join("/");
            for file in [format!("{base}.rs"), format!("{base}/mod.rs")] {
                self.add_file(texts, &file, child.clone());
            }
        }
    }

    fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (path, module) in &self.0 {
            let edges = imports.entry(module.file.clone()).or_default();
            for named in &module.named {
                let target = self.absolute(path, named).and_then(|path| self.file_of(&path, 0));
                edges.extend(target.filter(|file| *file != module.file));
            }
        }
        imports
    }

    /// Converts `path`, as code in `module` names it, to a path from the crate's root. Returns
    /// `None` for a path into another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut base = module.to_vec();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([&base, &path[1..]].concat()),
            "super" => {
                let ups = path.iter().take_while(|word| *word == "super").count();
                base.truncate(base.len().checked_sub(ups)?);
                Some([&base, &path[ups..]].concat())
            }
            first => {
                let here = self.0.get(module)?;
                if let Some(bound) = here.bound.get(first).filter(|bound| bound[0] != first) {
                    return self.absolute(module, &[bound, &path[1..]].concat());
                }
                let child = [&base, &path[..1]].concat();
                self.0.contains_key(&child).then(|| [&base, path].concat())
            }
        }
    }

    /// The file that defines the target of an absolute path. `None` if the target is a module,
    /// because the code also names each item that it uses from the module.
    fn file_of(&self, path: &[String], depth: u32) -> Option<String> {
        let length = (0..=path.len()).rev().find(|&n| self.0.contains_key(&path[..n]))?;
        let (module, name) = (&path[..length], path.get(length)?);
        let here = &self.0[module];
        // The limit of `depth` ends the search if `use` statements refer to each other.
        if !here.items.contains(name) && depth < 8 {
            if let Some(bound) = here.bound.get(name) {
                let next = self.absolute(module, bound)?;
                return self.file_of(&[&next, &path[length + 1..]].concat(), depth + 1);
            }
            for glob in &here.globs {
                let Some(from) = self.absolute(module, glob) else { continue };
                if self.0.get(&from).is_some_and(|module| module.items.contains(name)) {
                    return self.file_of(&[&from[..], &path[length..]].concat(), depth + 1);
                }
            }
        }
        Some(here.file.clone())
    }
}

/// Reads the tokens of a file.
struct Reader {
    tokens: Vec<String>,
    /// The index of the next token.
    at: usize,
    file: String,
    /// The modules that the file declares and that have their own files.
    children: Vec<Vec<String>>,
}

impl Reader {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    /// Reads a module up to its closing brace or the end of the file.
    fn module(&mut self, path: Vec<String>, modules: &mut BTreeMap<Vec<String>, Module>) {
        let mut module = Module { file: self.file.clone(), ..Module::default() };
        let mut depth = 0;
        while self.at < self.tokens.len() {
            let before = self.at.checked_sub(1).map_or("", |i| &self.tokens[i]).to_owned();
            match self.peek(0) {
                "#" if self.is_test_attribute() => self.skip_item(),
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "mod" if self.peek(2) == ";" => {
                    let child = [&path[..], &[self.peek(1).to_owned()]].concat();
                    self.children.push(child);
                }
                "mod" if self.peek(2) == "{" => {
                    let child = [&path[..], &[self.peek(1).to_owned()]].concat();
                    self.at += 3;
                    self.module(child, modules);
                }
                "use" => {
                    let is_re_export = before == "pub" || before == ")";
                    self.at += 1;
                    self.use_tree(&[], is_re_export, &mut module);
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                    if is_word(self.peek(1)) =>
                {
                    module.items.insert(self.peek(1).to_owned());
                }
                word if is_word(word)
                    && self.peek(1) == "::"
                    && before != "::"
                    && before != "$" =>
                {
                    let path = self.path();
                    module.named.push(path);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        modules.insert(path, module);
    }

    /// Reads a path in code, as far as it consists of words.
    fn path(&mut self) -> Vec<String> {
        let mut path = vec![self.peek(0).to_owned()];
        self.at += 1;
        while self.peek(0) == "::" && is_word(self.peek(1)) {
            path.push(self.peek(1).to_owned());
            self.at += 2;
        }
        path
    }

    /// Reads one branch of a `use`, up to its end.
    fn use_tree(&mut self, prefix: &[String], is_re_export: bool, module: &mut Module) {
        let mut path = prefix.to_vec();
        loop {
            match self.peek(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while self.peek(0) != "}" && self.at < self.tokens.len() {
                        self.use_tree(&path, is_re_export, module);
                        self.at += usize::from(self.peek(0) != "}");
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    module.globs.push(path.clone());
                    if !is_re_export {
                        // A glob import counts as an import of the module, because it names no
                        // single item.
                        path.push("*".to_owned());
                        module.named.push(path);
                    }
                    return;
                }
                word if is_word(word) && word != "as" => {
                    if word != "self" || path.is_empty() {
                        path.push(word.to_owned());
                    }
                    self.at += 1;
                }
                _ => break,
            }
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.peek(0) == "as" {
            name = self.peek(1).to_owned();
            self.at += 2;
        }
        if !is_re_export {
            module.named.push(path.clone());
        }
        module.bound.insert(name, path);
    }

    /// Whether a `#[cfg(test)]` attribute begins here.
    fn is_test_attribute(&self) -> bool {
        let words: Vec<&str> = (0..6).map(|ahead| self.peek(ahead)).collect();
        words == ["#", "[", "cfg", "(", "test", ")"]
    }

    /// Skips an attribute and the item to which it belongs.
    fn skip_item(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.peek(0) {
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 1 => return,
                "}" | ")" | "]" => depth -= 1,
                ";" if depth == 0 => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits a source text into words, `::` and single characters, without comments and without
/// literals of strings and characters.
fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied().unwrap_or(' ');
        match c {
            '/' if next == '/' => at = find(&chars, at, "\n"),
            '/' if next == '*' => at = find(&chars, at + 2, "*/") + 2,
            'r' if next == '"' => at = find(&chars, at + 2, "\"") + 1,
            'r' if next == '#' && chars.get(at + 2) == Some(&'"') => {
                at = find(&chars, at + 3, "\"#") + 2;
            }
            '"' => at = end_of_string(&chars, at + 1),
            // A literal of one character; otherwise a lifetime.
            '\'' if next == '\\' => at = find(&chars, at + 3, "'") + 1,
            '\'' if chars.get(at + 2) == Some(&'\'') => at += 3,
            ':' if next == ':' => {
                tokens.push("::".to_owned());
                at += 2;
            }
            _ if c.is_alphanumeric() || c == '_' => {
                let end = chars[at..].iter().position(|c| !c.is_alphanumeric() && *c != '_');
                let end = end.map_or(chars.len(), |n| at + n);
                tokens.push(chars[at..end].iter().collect());
                at = end;
            }
            _ => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    tokens
}

/// The position of the next `what`, or the end of the text.
fn find(chars: &[char], from: usize, what: &str) -> usize {
    let what: Vec<char> = what.chars().collect();
    let rest = chars.get(from..).unwrap_or_default();
    rest.windows(what.len()).position(|w| w == what).map_or(chars.len(), |n| from + n)
}

fn end_of_string(chars: &[char], mut at: usize) -> usize {
    while let Some(&c) = chars.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

#[test]
fn a_circle_of_files_is_found_and_a_re_export_is_no_import() {
    let parent = "mod a;\nmod b;\nmod c;\npub use a::A;\nuse b::B;\n// use c::C;\nstruct Own;";
    let a = "use crate::c::C;\n#[cfg(test)]\nmod tests { use super::super::b::B; }";
    let b = "use super::A;\nfn f() -> &'static str { let x = super::Own; \"crate::c::C\" }";
    let c = "pub struct C; fn g(c: char) -> bool { c == '\"' }";
    let files = [("lib.rs", parent), ("a.rs", a), ("b.rs", b), ("c.rs", c)];
    let mut files = BTreeMap::from(files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let imports = read(&files);
    let of = |file: &str| imports[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("lib.rs"), ["b.rs"]);
    assert_eq!(of("a.rs"), ["c.rs"]);
    assert_eq!(of("b.rs"), ["a.rs", "lib.rs"]);
    assert_eq!(of("c.rs"), Vec::<&str>::new());
    assert_eq!(circles(&imports), [["b.rs", "lib.rs"].map(str::to_owned).into()]);
    files.insert("b.rs".to_owned(), "use super::A;".to_owned());
    assert_eq!(circles(&read(&files)), Vec::<BTreeSet<String>>::new());
}
