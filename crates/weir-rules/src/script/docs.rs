//! The reference of the command language in Markdown, made from the tables.

use core::fmt::Write as _;

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
    out
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

<!-- Made from the tables of the crate `weir-rules`; `WEIR_UPDATE_DOCS=1 cargo test -p weir-rules` writes it anew. -->

Weir is configured in the language of `ipfw` and `dnctl`, as FreeBSD's dummynet is. A script has a command on each line:

```
pipe 1 config bw 256Kbit/s delay 20ms queue 50
pipe 2 config bw 4Mbit/s delay 20ms
add pipe 1 ip from any to any out
add pipe 2 ip from any to any in
```

`weir check FILE` reads a script, says what is wrong with it and prints it in canonical form; `weir fmt FILE` lays it out. Neither needs
privileges. The words of a link (`bw`, `delay`, `queue`, `plr`, `mask` …) are those of [link specifications](link-spec.md).

A line may begin with the program's name (`ipfw`, `dnctl`, `weir`, also with a path or `sudo`) and with flags (`-q`, `-f`, `-a`, `-n` …), so that
most scripts written for `sh` can be read as they are. Of a shell's language there are:

- assignments in lines of their own: `net=\"10.0.0.0/8\"`; their values as `$net` and `${net}`;
- quotes `\"…\"` and `'…'`, `\\` before a sign that is to be ordinary, and `\\` at the end of a line that goes on;
- comments: `#` to the end of the line; behind a rule, `// text` is kept with it.

Everything else of a shell (`if`, `for`, functions, `$(…)`, `;`, `|`, `>`) is refused, with the place.
";
const COMMANDS: &str =
    "Numbers of pipes, queues and schedulers go from 1 to 65535, those of rules from 1 to 65534; rule 65535 is always there and lets
everything pass. Lists of numbers are written `3`, `3-7` or `3,5 9`.
";
const RULES: &str = "```
add [N] [set S] [prob P] ACTION [log] [tag N] [untag N] [PROTO from A [PORTS] to B [PORTS]] [OPTIONS] [// COMMENT]
```

- `prob` makes the rule match with probability P when everything else about it fits, drawn for each packet by itself.
- PROTO is a name or a number, `ip` or `all` for every protocol, `ip4`, `ip6`, or a choice: `{ tcp or udp }`.
- A and B are lists of addresses with commas: `any`, `me`, `me6`, `10.0.0.1`, `10.0.0.0/24`, `10.0.0.0:255.0.255.0`, `10.0.0.0/24{1,3-5}` (these last bytes),
  `2001:db8::/32`, `table(NAME)`, `table(NAME,VALUE)`. Names of hosts are not looked up.
- PORTS are numbers, ranges and names of services with commas: `80,443,5000-5999`, `ssh`.
- `not` before a protocol, an address, ports or an option negates it. `{ a or b }` is a choice between addresses, between protocols or between options.
- The short form leaves `PROTO from A to B` out: `add pipe 1 out`.

A rule with `from … to …` is about IP packets; ARP and the like pass it by. A rule in the short form sees every frame, as far as its options hold, and so does
`ip from any to any` with one of `layer2`, `MAC`, `mac-type`, `vlan`.
";
const ACTIONS: &str =
    "Where N may be `tablearg`, it is the value that the rule's last table look-up found.
";
const OPTIONS: &str =
    "All options of a rule must hold. A packet that lacks what is tested, such as the ports of a later fragment, does not pass the test.
";
const TABLES: &str = "```
table NAME create [type addr|iface|number|flow[:FIELDS]] [limit N] [missing]
table NAME [atomic] add KEY [VALUE]        table NAME [atomic] add KEY VALUE KEY VALUE …
table NAME delete KEY…        table NAME lookup KEY        table NAME swap OTHER
```

- A key is a prefix (`addr`; the longest one that holds an address wins), the name of an interface (`iface`), a number (`number`) or a flow (`flow`).
- A flow is `SRC,PROTO,SRC-PORT,DST,DST-PORT`, with `*` for what the table does not use; or, behind a `create` in the same script, only the FIELDS of the
  table: `src-ip`, `proto`, `src-port`, `dst-ip`, `dst-port`, in this order.
- A value is a number or an address of four bytes; without one it is 0. What it means depends on the rule that finds it (`tablearg`).
- `missing` is content with a table that is there; `atomic` adds all entries or none; the flag `-q` gives an entry that is there the new value.
";
const NETCONFIG: &str = "`netconfig` makes a link for one service with the rules that it needs. `client` is for clients on this side of a service elsewhere, `server` for a
service on this side, `service` for both; PEERS are the addresses on the other side. `IN` is the direction towards this side, `OUT` the one away from it. With `expire`
the link deletes itself after so many seconds, or after a time such as `30m` or `2h`. The same command with other words changes the link.
";
const REFUSALS: &str =
    "Words of `ipfw` that only make sense inside an operating system are refused by name.
";
