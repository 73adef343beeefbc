//! The reference of the language in Markdown, generated from the tables.

use core::fmt::Write as _;

use crate::diagnostic::{Code, Severity};
use crate::keyword::{Group, Keyword, TABLE};
use crate::markdown::wrap;
use crate::presets::PRESETS;

/// The content of `docs/link-spec.md`.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    for &group in Group::ALL {
        line(&mut out, &format!("\n## {}\n", group.title()));
        for row in TABLE.iter().filter(|row| row.group == group) {
            keyword(&mut out, row);
        }
    }
    presets(&mut out);
    diagnostics(&mut out);
    wrap(&out)
}

fn keyword(out: &mut String, row: &Keyword) {
    line(out, &format!("### `{}`", format!("{} {}", row.name, row.argument).trim_end()));
    line(out, &format!("\n{}\n", row.meaning));
    if !row.aliases.is_empty() {
        line(out, &format!("- Also: `{}`", row.aliases.join("`, `")));
    }
    for (name, value) in
        [("Allowed", row.range().as_str()), ("Default", row.default), ("In dummynet", row.dummynet)]
    {
        if !value.is_empty() {
            line(out, &format!("- {name}: {value}"));
        }
    }
    for choice in row.choices {
        line(out, &format!("- `{}`: {}", choice.name, choice.meaning));
    }
    line(out, &format!("- Example: `{}`\n", row.example));
}

fn presets(out: &mut String) {
    line(out, "## Presets\n\n| name | link | up | down | source |\n|---|---|---|---|---|");
    for p in PRESETS {
        let names: Vec<&str> = std::iter::once(p.name).chain(p.aliases.iter().copied()).collect();
        line(
            out,
            &format!(
                "| `{}` | {} | `{}` | `{}` | {} |",
                names.join("`, `"),
                p.summary,
                p.up,
                p.down,
                p.source
            ),
        );
    }
}

fn diagnostics(out: &mut String) {
    line(
        out,
        "\n## Diagnostics\n\nEach diagnostic has a stable name, which is shown in brackets.\n",
    );
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let names: Vec<_> = Code::ALL
            .iter()
            .filter(|c| c.severity() == severity)
            .map(|c| format!("`{}`", c.name()))
            .collect();
        line(out, &format!("- {severity:?}: {}", names.join(", ")));
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

const INTRODUCTION: &str = "# Link specifications

<!-- Generated from the tables of weir-rules: WEIR_UPDATE_DOCS=1 cargo test -p weir-rules --test it reference -->

A specification describes one direction of a link in keywords, in any order, each at most once:

```
bw 4Mbit/s delay 20ms queue 50 loss 0.1%
```

or in the short form `RATE[/DELAY[/LOSS]]`, which keywords may follow: `4M/20ms`, `256k/20ms/1%`,
`/20ms`, `4M/20ms queue 64KB`. The empty specification is a perfect link. A number and its unit may
be one word or two (`20ms`, `20 ms`). Numbers are read exactly; rates are rounded to whole bit/s,
and times to whole nanoseconds. Quote a name that contains spaces or equals a keyword:
`profile \"my file\"`. `#` starts a comment.

A packet meets the settings in this order: loss before the queue (`plr`), queue, network card
(`ring`, see [device.md](device.md)), transmission (`bw`, `overhead`, `profile`, `burst`), `loss`,
`dup`, `corrupt`, then `delay` with `jitter` and `reorder`.
";
