//! Tests the commands of ipfw as users type them, with a real daemon: their output, their effects,
//! their exit codes.

use libtest_mimic::Trial;

use crate::common::{Done, Lab, Need, trial, weir};
use crate::daemon::{Daemon, Wire};

pub(crate) fn tests() -> Vec<Trial> {
    let needs: &[Need] = &[Need::Root, Need::Program("ip")];
    vec![
        trial("verbs_configure_show_and_delete", needs, round),
        trial("verbs_show_what_packets_did", needs, counters),
        trial("verbs_take_scripts_as_a_whole_with_their_files", needs, scripts),
        trial("verbs_have_the_exit_codes_of_ipfw", needs, endings),
        trial("verbs_work_under_the_names_ipfw_and_dnctl", needs, names),
    ]
}

/// Runs a dialogue with the daemon. A line `$ words` is a command without `weir`. The command must
/// succeed, and the lines after it are its expected output.
fn talk(lab: &Lab, dialogue: &str) {
    let mut parts = dialogue.trim().split("$ ").skip(1);
    for part in &mut parts {
        let (line, expected) = part.split_once('\n').unwrap_or((part, ""));
        let done = give(lab, line);
        assert_eq!(
            (done.code, done.stdout.trim_end()),
            (0, expected.trim_end()),
            "{line}\n{}",
            done.stderr
        );
    }
}

/// Runs `weir` with these words against the daemon of the test.
fn give(lab: &Lab, line: &str) -> Done {
    let socket = lab.path("weir.sock").display().to_string();
    lab.weir(line.split(' ').chain(["--socket", &socket]))
}

// The kernel sends its own packets as soon as an interface is up, so the rules name protocols that
// do not occur here.
fn round(lab: &Lab) {
    let _wire = Wire::new();
    let _daemon = Daemon::start(lab, &[]);
    talk(
        lab,
        "
$ pipe 1 config bw 4Mbit/s delay 20ms
$ sched 5 config type drr bw 2Mbit/s
$ queue 3 config sched 5 weight 4
$ add pipe 1 udp from any to any out
00100 pipe 1 udp from any to any out
$ -q add set 4 deny udp from any to any
$ add 150 queue 3 tcp from any to any
00150 queue 3 tcp from any to any
$ list
00100 pipe 1 udp from any to any out
00150 queue 3 tcp from any to any
00200 deny udp from any to any
65535 allow ip from any to any
$ show 100-150
00100 0 0 pipe 1 udp from any to any out
00150 0 0 queue 3 tcp from any to any
$ set disable 4
$ -S list 200
# DISABLED 00200 set 4 deny udp from any to any
$ set enable 4
$ pipe show
00001:   4.000 Mbit/s   20 ms burst 0
q131073  50 sl. 0 flows (1 buckets) sched 65537 weight 0 lmax 0 pri 0 droptail
 sched 65537 type FIFO flags 0x0 0 buckets 0 active
$ sched show
00005:   2.000 Mbit/s    0 ms burst 0
 sched 5 type DRR flags 0x0 0 buckets 0 active
   Children flowsets: 3 
$ queue show
q00003  50 sl. 0 flows (1 buckets) sched 5 weight 4 lmax 1500 pri 0 droptail
$ table 7 add 10.0.0.0/8 5
$ table t create type number
$ table t add 80 1
$ -q table t add 80 2
$ -q table t delete 81
$ table t lookup 80
80 2
$ table 7 list
--- table(7), set(0) ---
10.0.0.0/8 5
$ table all destroy
$ table all list
$ netconfig config client 80 IN delay 100ms OUT bw 1Mbit/s
$ netconfig list
netconfig config client 80 IN delay 100ms OUT bw 1Mbit/s
$ netconfig delete client 80
$ disable one_pass
$ enable one_pass
$ zero
$ resetlog
$ delete 150
$ queue delete 3
$ queue show
$ flush
$ pipe flush
$ sched show
$ list
65535 allow ip from any to any
",
    );
}

fn counters(lab: &Lab) {
    let wire = Wire::new();
    let _daemon = Daemon::start(lab, &[]);
    talk(
        lab,
        "
$ pipe 1 config mask dst-ip 0xffffffff
$ -q add 10 pipe 1 udp from any to any 9000
$ -q add 20 allow icmp from any to any in keep-state
",
    );
    let received = wire.stream(lab, 300, 1_000, 500);
    assert_eq!(received.lost, 0);
    let shown = give(lab, "show 10").stdout;
    assert_eq!(shown, "00010 300 150000 pipe 1 udp from any to any 9000\n");
    let shown = give(lab, "pipe show 1").stdout;
    let row = shown.lines().last().expect("a row").split_whitespace().collect::<Vec<_>>();
    assert_eq!(
        row[1..],
        ["ip", "0.0.0.0/0", "10.77.0.2/0", "300", "150000", "0", "0", "0"],
        "{shown}"
    );
    let mask = "    mask:  0x00 0x00000000/0x0000 -> 0xffffffff/0x0000\n";
    let expected = format!("type FIFO flags 0x1 64 buckets 1 active\n{mask}");
    assert!(shown.contains(&expected), "{shown}");
    let shown = give(lab, "-d list 20").stdout;
    assert!(
        shown.contains("## Dynamic rules (")
            && shown.contains("STATE icmp 10.77.0.1 0 <-> 10.77.0.2 0 :default"),
        "{shown}"
    );
    let dated = give(lab, "-t list 10").stdout;
    assert!(dated.len() > "00010 ".len() + 24 && dated.contains(':'), "{dated}");
    let json: serde_json::Value =
        serde_json::from_str(&give(lab, "pipe show 1 --json").stdout).expect("JSON");
    assert_eq!(json["objects"][0]["instances"][0]["packets"], 300, "{json}");
    talk(lab, "$ zero 10\n$ show 10\n00010 0 0 pipe 1 udp from any to any 9000\n");
}

fn scripts(lab: &Lab) {
    let _wire = Wire::new();
    let _daemon = Daemon::start(lab, &[]);
    let talks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/talk");
    let socket = lab.path("weir.sock").display().to_string();
    let mut command = std::process::Command::new(weir());
    // The client reads the profile that the script names, and sends it with the script.
    let applied = lab
        .launch(command.current_dir(talks).args(["apply", "profile.ipfw", "--socket", &socket]))
        .finish();
    assert_eq!(
        (applied.code, applied.stdout.as_str()),
        (0, "00100 pipe 1 ip from any to any out\n"),
        "{applied:?}"
    );
    assert!(
        give(lab, "pipe show").stdout.contains("profile: name \"radio\" loss 1.000000 samples 100")
    );
    let half = lab
        .file("half.ipfw", "pipe 2 config bw 1Mbit/s\npipe delete 77\npipe 3 config bw 1Mbit/s\n");
    let refused = give(lab, &format!("ipfw -q {half}"));
    assert_eq!(refused.code, 69);
    assert!(refused.stderr.contains("half.ipfw:2: there is no pipe 77"), "{}", refused.stderr);
    talk(lab, "$ pipe show 2\n$ pipe show 3\n");
    let asks = lab.file("asks.ipfw", "flush\nadd 5 deny icmp from any to any\nlist\n");
    talk(
        lab,
        &format!(
            "$ apply -q {asks}\n00005 deny icmp from any to any\n65535 allow ip from any to any\n"
        ),
    );
}

fn endings(lab: &Lab) {
    let none = give(lab, "list");
    assert_eq!(none.code, 69);
    assert!(
        none.stderr.contains("no daemon listens on") && none.stderr.contains("weir serve"),
        "{}",
        none.stderr
    );
    assert_eq!(give(lab, "-n pipe 1 config bw 4Mbit/s").code, 0, "checking needs no daemon");
    let _wire = Wire::new();
    let _daemon = Daemon::start(lab, &[]);
    for (line, code, says) in [
        ("pipe 1 config dealy 3ms", 65, "did you mean `delay`?"),
        ("ipfw nat 1 config", 65, "not possible here"),
        ("pipe -x 1", 65, "-x"),
        ("-p m4 rules", 64, "run the preprocessor yourself"),
        ("apply /nowhere/rules", 66, "cannot read /nowhere/rules"),
        ("delete 77", 69, "there is no rule 77"),
        ("-q delete 77", 69, "there is no rule 77"),
        ("table t list", 69, "there is no table t"),
        ("pipe 64001 config bw 1M", 69, "reserved for `netconfig`"),
    ] {
        let done = give(lab, line);
        assert!(done.stderr.contains(says), "{line}: {}", done.stderr);
        assert_eq!(done.code, code, "{line}: {}", done.stderr);
    }
}

fn names(lab: &Lab) {
    let _wire = Wire::new();
    let _daemon = Daemon::start(lab, &[]);
    let socket = lab.path("weir.sock");
    for (name, line, expected) in [
        ("dnctl", "pipe 1 config bw 1Mbit/s delay 5ms", ""),
        ("ipfw", "-q add 1 allow ip from any to any", ""),
        ("ipfw", "list 1", "00001 allow ip from any to any\n"),
    ] {
        let link = lab.path(name);
        if !link.exists() {
            std::os::unix::fs::symlink(weir(), &link).expect("a link");
        }
        let done = lab
            .launch(
                std::process::Command::new(&link).args(line.split(' ')).env("WEIR_SOCKET", &socket),
            )
            .finish();
        assert_eq!(
            (done.code, done.stdout.as_str()),
            (0, expected),
            "{name} {line}: {}",
            done.stderr
        );
    }
}
