//! Every case that was recorded from a kernel holds, states the cause of its difference, or states
//! that Weir lacks the discipline. The table in `docs/kernel.md` shows the results of the cases.
//!
//! `WEIR_UPDATE_DOCS=1` writes the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use weir_rig::conformance::{Case, Outcome, Subject};

/// A recorded case and its play.
struct Played {
    name: String,
    case: Case,
    outcome: Outcome,
}

fn play_all() -> Vec<Played> {
    let folder = root().join("crates/weir-core/tests/conformance/kernel");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let play = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let case = Case::read(&text).unwrap_or_else(|error| panic!("{}, {error}", path.display()));
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let outcome = case.run();
        Played { name, case, outcome }
    };
    paths.into_iter().map(play).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Played {
    fn is_missing(&self) -> bool {
        matches!(self.case.subject, Subject::Missing(_))
    }

    fn is_random(&self) -> bool {
        self.case.kernel.as_ref().is_some_and(|recording| recording.runs > 1)
    }

    fn verdict(&self) -> &'static str {
        match (&self.case.subject, &self.case.differs, self.is_random()) {
            (Subject::Missing(_), ..) => "none",
            (_, Some(_), _) => "differs",
            (_, None, true) => "means agree",
            (_, None, false) => "identical",
        }
    }

    /// The first expectation that does not hold.
    fn difference(&self) -> String {
        let failed = self.outcome.expectations.iter().find(|finding| !finding.passed);
        failed.map_or(String::new(), |finding| match self.is_random() {
            true => format!("{}: {}; Weir {}", finding.name, finding.expected, finding.found),
            false => format!("{}: {}", finding.name, finding.found),
        })
    }

    fn result(&self) -> String {
        let counts = &self.outcome.play.counts;
        match (&self.case.subject, &self.case.differs) {
            (Subject::Missing(cause), _) => cause.clone(),
            (_, Some(cause)) => format!("{cause}. First difference: {}", self.difference()),
            _ if self.is_random() => {
                let words = |finding: &weir_rig::conformance::Finding| {
                    let short = |text: &str| {
                        text.replace(" in the mean, with a standard error of ", " ± ")
                            .replace(" with a standard error of ", " ± ")
                    };
                    format!(
                        "{} {}, {}",
                        finding.name,
                        short(&finding.expected),
                        short(&finding.found)
                    )
                };
                let totals =
                    self.outcome.expectations.iter().filter(|f| !f.name.contains(" of flow"));
                totals.map(words).collect::<Vec<_>>().join("; ")
            }
            _ => format!(
                "{} packets, {} drops, {} marks",
                counts.arrived,
                counts.dropped(),
                counts.marked()
            ),
        }
    }
}

/// The release without `+deb…` and without the architecture: 6.12.117+deb12-amd64 gives 6.12.117,
/// and 6.1.0-56-amd64 gives 6.1.0-56.
fn short(release: &str) -> &str {
    release.split('+').next().unwrap_or(release).trim_end_matches("-amd64")
}

fn table(played: &[Played]) -> String {
    let mut disciplines: BTreeMap<&str, Vec<&Played>> = BTreeMap::new();
    for case in played {
        disciplines.entry(case.name.split('-').next().unwrap()).or_default().push(case);
    }
    let mut text = String::from(
        "| discipline | cases | identical | means agree | differs, cause known | none of ours |\n\
         |---|---|---|---|---|---|\n",
    );
    for (discipline, cases) in &disciplines {
        let count = |verdict: &str| match cases.iter().filter(|c| c.verdict() == verdict).count() {
            0 => String::new(),
            n => n.to_string(),
        };
        let columns = ["identical", "means agree", "differs", "none"].map(count);
        writeln!(text, "| {discipline} | {} | {} |", cases.len(), columns.join(" | ")).unwrap();
    }
    for (discipline, cases) in &disciplines {
        write!(
            text,
            "\n### {discipline}\n\n| case | what | kernels | result | detail \
                      |\n|---|---|---|---|---|\n"
        )
        .unwrap();
        for case in cases {
            let releases: Vec<&str> =
                case.case.kernel.iter().flat_map(|k| &k.releases).map(|r| short(r)).collect();
            writeln!(
                text,
                "| [{name}](../crates/weir-core/tests/conformance/kernel/{name}.toml) | {} | {} | \
                 {} | {} |",
                case.case.about,
                releases.join(", "),
                case.verdict(),
                case.result(),
                name = case.name,
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn recorded_cases_hold_or_state_their_difference() {
    let played = play_all();
    let mut faults = String::new();
    for case in &played {
        let fault = match (case.outcome.passed, &case.case.differs, case.is_missing()) {
            (_, _, true) | (true, None, _) | (false, Some(_), _) => continue,
            (true, Some(_), _) => "agrees with the kernel now: remove `differs`".to_owned(),
            (false, None, _) => case.difference(),
        };
        writeln!(faults, "{}: {fault}", case.name).unwrap();
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert!(played.iter().all(|case| case.case.kernel.is_some()), "a case without [kernel]");

    let path = root().join("docs/kernel.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has the mark before the table");
    let (_, tail) = rest.split_once(END).expect("the page has the mark after the table");
    let new = format!("{head}{BEGIN}\n\n{}\n{END}{tail}", table(&played));
    if std::env::var_os("WEIR_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &new).unwrap();
    } else {
        assert!(page == new, "docs/kernel.md is old: WEIR_UPDATE_DOCS=1 writes it");
    }
}

const BEGIN: &str = "<!-- The test weir-rig::kernel writes this part. -->";
const END: &str = "<!-- End of the part. -->";
