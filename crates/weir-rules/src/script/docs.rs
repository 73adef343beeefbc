//! The reference of the command language in Markdown, generated from the tables.

use core::fmt::Write as _;

use crate::markdown::wrap;

use super::names::{DSCPS, PROTOCOLS};
use super::{Entry, REFUSED, actions, commands, options};

/// The content of `docs/rules.md`.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    section(&mut out, "Commands", COMMANDS, commands());
    section(&mut out, "Rules", RULES, std::iter::empty());
    section(&mut out, "Actions", ACTIONS, actions());
    section(&mut out, "Options", OPTIONS, options());
    section(&mut out, "Tables", TABLES, std::iter::empty());
    section(&mut out, "Links for a service", NETCONFIG, std::iter::empty());
    section(&mut out, "Names", "", std::iter::empty());
    let names = |all: Vec<String>| all.join(", ");
    let protocols =
        names(PROTOCOLS.iter().map(|(name, number)| format!("`{name}` {number}")).collect());
    let dscps = names(DSCPS.iter().map(|(name, code)| format!("`{name}` {code}")).collect());
    line(
        &mut out,
        &format!(
            "- Protocols: {protocols}; others by number.\n- DSCPs: {dscps}; others by number."
        ),
    );
    section(&mut out, "What is refused", REFUSALS, std::iter::empty());
    line(&mut out, "| word | why | instead |\n|---|---|---|");
    for row in REFUSED {
        line(&mut out, &format!("| `{}` | {} | {} |", row.name, row.reason, row.instead));
    }
    wrap(&out)
}

fn section(out: &mut String, title: &str, text: &str, entries: impl Iterator<Item = Entry>) {
    line(out, &format!("\n## {title}\n"));
    if !text.is_empty() {
        line(out, &format!("{}\n", text.trim_end()));
    }
    for entry in entries {
        let form = format!("{} {}", entry.name, entry.argument);
        let aliases = if entry.aliases.is_empty() {
            String::new()
        } else {
            format!(" Also: `{}`.", entry.aliases.join("`, `"))
        };
        line(
            out,
            &format!(
                "- `{}`: {}{aliases}\n  Example: `{}`",
                form.trim_end(),
                entry.meaning,
                entry.example
            ),
        );
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

const INTRODUCTION: &str = "# The command language

<!-- Generated from the tables of weir-rules: WEIR_UPDATE_DOCS=1 cargo test -p weir-rules --test it reference -->

Weir is configured in the language of `ipfw` and `dnctl`, like FreeBSD's dummynet. A script has one
command per line:

```
pipe 1 config bw 256Kbit/s delay 20ms queue 50
pipe 2 config bw 4Mbit/s delay 20ms
add pipe 1 ip from any to any out
add pipe 2 ip from any to any in
```

`weir check FILE` reads a script, reports its errors and prints it in canonical form. If the third
line of a script has a wrong option, it says:

```text
error[unknown-keyword]: `dst-prot` is no option
 --> rules:3:32
  |
3 | add pipe 1 tcp from any to any dst-prot 443
  |                                ^^^^^^^^ did you mean `dst-port`?
```

`weir fmt FILE` formats it. Neither needs privileges. The keywords of a link (`bw`, `delay`,
`queue`, `plr`, `mask` …) are those of [link specifications](link-spec.md).

A line may begin with the program's name (`ipfw`, `dnctl`, `weir`, also with a path or `sudo`) and
with flags (`-q`, `-f`, `-a`, `-n` …), so that most scripts written for `sh` can be read unchanged.
These parts of a shell's language are supported:

- assignments on separate lines, `net=\"10.0.0.0/8\"`, and their values as `$net` and `${net}`;
- quotes `\"…\"` and `'…'`, `\\` before a character to make it ordinary, and `\\` at the end of a
  line that continues;
- comments: `#` to the end of the line; after a rule, `// text` is kept with the rule.

The rest of a shell's language (`if`, `for`, functions, `$(…)`, `;`, `|`, `>`) is refused.
";
const COMMANDS: &str =
    "Numbers of pipes, queues and schedulers are 1 to 65535, those of rules 1 to 65534. Rule 65535
always exists and lets all packets pass. Lists of numbers are written `3`, `3-7` or `3,5 9`.
";
const RULES: &str = "```
add [N] [set S] [prob P] ACTION [log] [tag N] [untag N] [PROTO from A [PORTS] to B [PORTS]] [OPTIONS] [// COMMENT]
```

- `prob` lets the rule match with probability P if all tests hold, drawn independently for each packet.
- PROTO is a name or a number, `ip` or `all` for every protocol, `ip4`, `ip6`, or a choice: `{ tcp or udp }`.
- A and B are lists of addresses with commas: `any`, `me`, `me6`, `10.0.0.1`, `10.0.0.0/24`, `10.0.0.0:255.0.255.0`, `10.0.0.0/24{1,3-5}` (these last bytes), `2001:db8::/32`, `table(NAME)`, `table(NAME,VALUE)`. Host names are not resolved.
- PORTS are numbers, ranges and names of services with commas: `80,443,5000-5999`, `ssh`.
- `not` before a protocol, an address, ports or an option negates it. `{ a or b }` is a choice between addresses, protocols or options.
- The short form omits `PROTO from A to B`: `add pipe 1 out`.

A rule with `from … to …` is about IP packets; other frames, such as ARP, do not match it. A rule in
the short form matches every frame for which its options hold, and so does `ip from any to any` with
one of `layer2`, `MAC`, `mac-type`, `vlan`.
";
const ACTIONS: &str =
    "Where N may be `tablearg`, it is the result of the rule's last table look-up.
";
const OPTIONS: &str =
    "All options of a rule must hold. A packet without the tested field, such as the ports of a later
fragment, fails the test.
";
const TABLES: &str = "```
table NAME create [type addr|iface|number|flow[:FIELDS]] [limit N] [missing]
table NAME [atomic] add KEY [VALUE]        table NAME [atomic] add KEY VALUE KEY VALUE …
table NAME delete KEY…        table NAME lookup KEY        table NAME swap OTHER
```

- A key is a prefix (`addr`; the longest one that contains an address is found), the name of an interface (`iface`), a number (`number`) or a flow (`flow`).
- A flow is `SRC,PROTO,SRC-PORT,DST,DST-PORT`, with `*` for fields that the table does not use; or, after a `create` in the same script, only the FIELDS of the table: `src-ip`, `proto`, `src-port`, `dst-ip`, `dst-port`, in this order.
- A value is a number or an address of four bytes; without one it is 0. Its meaning depends on the rule that finds it (`tablearg`).
- `missing` accepts an existing table; `atomic` adds all entries or none; the flag `-q` gives an existing entry the new value.
";
const NETCONFIG: &str = "`netconfig` creates a link for one service with the necessary rules. `client` is for clients on this
side of a service elsewhere, `server` for a service on this side, `service` for both. PEERS are the
addresses on the other side. `IN` is the direction towards this side, `OUT` the direction away from
it. With `expire` the link deletes itself after a number of seconds, or after a time such as `30m`
or `2h`. The same command with other settings changes the link.
";
const REFUSALS: &str =
    "Words of `ipfw` that only make sense inside an operating system are refused by name.
";
