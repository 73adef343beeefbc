//! Tests `weir top` in a real terminal, that of tmux: keys, sizes, changes that a transfer notices,
//! suspension, and sources that end or start again.

use std::path::PathBuf;
use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{Lab, Need, load, trial, until, weir};
use crate::control::connect;
use crate::daemon::{Daemon, Wire};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "a_rate_that_is_changed_in_the_view_is_what_a_transfer_gets",
            &[Need::Program("tmux"), Need::Program("iperf3")],
            changes,
        ),
        trial("the_view_fits_every_terminal_and_gives_it_back", &[Need::Program("tmux")], sizes),
        trial(
            "a_daemon_that_starts_again_comes_back_into_the_view",
            &[Need::Root, Need::Program("tmux"), Need::Program("ip")],
            daemon,
        ),
        trial("the_table_is_printed_once_without_a_terminal", &[], once),
    ]
}

/// A terminal with a shell, in a tmux server of its own.
struct Screen {
    socket: PathBuf,
}

impl Screen {
    fn open(lab: &Lab, environment: &[(&str, String)]) -> Self {
        let screen = Self { socket: lab.path("tmux") };
        let mut command = screen.tmux();
        command.args(["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"]);
        for (name, value) in environment {
            command.args(["-e", &format!("{name}={value}")]);
        }
        command.args(["bash", "--norc", "--noprofile", "-i"]);
        assert!(command.status().expect("tmux starts").success());
        screen.tmux().args(["set-option", "-g", "status", "off"]).status().expect("tmux answers");
        screen.size(80, 24);
        screen.keys(&["PS1='ready> '", "Enter"]);
        until("the shell is ready", || screen.text().contains("\nready>"));
        screen
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).env("TERM", "xterm-256color");
        command
    }

    fn keys(&self, keys: &[&str]) {
        let sent = self.tmux().arg("send-keys").args(keys).status().expect("tmux answers");
        assert!(sent.success());
    }

    /// Types text literally: `Enter` is five letters.
    fn write(&self, text: &str) {
        self.keys(&["-l", text]);
    }

    fn size(&self, width: u16, height: u16) {
        let size = [width.to_string(), height.to_string()];
        let done = self.tmux().args(["resize-window", "-x", &size[0], "-y", &size[1]]).status();
        assert!(done.expect("tmux answers").success());
    }

    fn text(&self) -> String {
        let done = self.tmux().args(["capture-pane", "-p"]).output().expect("tmux answers");
        String::from_utf8(done.stdout).expect("a screen is UTF-8")
    }

    /// Waits until the screen shows these words, and returns its text.
    fn shows(&self, words: &str) -> String {
        let mut text = String::new();
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            until("the screen shows it", || {
                text = self.text();
                text.contains(words)
            });
        }));
        assert!(shown.is_ok(), "{words:?} is not on the screen:\n{}", self.text());
        text
    }

    fn top(&self, options: &str) {
        self.write(&format!("{} top {options}", weir()));
        self.keys(&["Enter"]);
        self.shows("weir top  ");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ends the test's tmux server, and with it the shell and its programs.
        let _ = self.tmux().arg("kill-server").status();
    }
}

fn changes(lab: &Lab) {
    let got = lab.path("iperf.txt").display().to_string();
    let right = format!("sleep 1; exec iperf3 -c left -t 120 -i 1 -f k --forceflush > {got}");
    let session = lab.start([
        "pair",
        "--name",
        "seen",
        "--link",
        "bw 2Mbit/s delay 5ms queue 100",
        "--left",
        "iperf3 -s -1 >/dev/null",
        "--right",
        &right,
    ]);
    let mut client = connect("seen");
    let screen = Screen::open(lab, &[]);
    screen.top("-n 0.5");
    let text = screen.shows("seen to-left");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // TCP fills the queue at 2 Mbit/s.
    let rate = |client: &mut weir_control::session_client::SessionClient| {
        let before = client.readings().expect("readings");
        std::thread::sleep(std::time::Duration::from_secs(1));
        let now = client.readings().expect("readings");
        let interval = weir_control::api::Interval::between("seen", &before, &now);
        let link = interval.links.into_iter().find(|link| link.name == "to-left");
        link.expect("the link").out_bps
    };
    until("the transfer is at its rate", || rate(&mut client) > 1_500_000);
    screen.keys(&["/"]);
    screen.write("to-left");
    screen.keys(&["Enter"]);
    screen.shows("filter to-left: 1 of 2");
    screen.keys(&["Enter"]);
    screen.shows("bw 2Mbit/s delay 5ms queue 100");
    screen.shows("offered ");
    // A wrong word is refused before it is sent.
    screen.keys(&["c"]);
    screen.shows("checked: Enter applies it");
    screen.write(" dely 5ms");
    screen.shows("dely");
    screen.keys(&["Enter"]);
    let spec = |client: &mut weir_control::session_client::SessionClient| {
        let view = client.view().expect("a view");
        view.links.into_iter().find(|link| link.name == "to-left").expect("the link").spec
    };
    assert_eq!(spec(&mut client), "bw 2Mbit/s delay 5ms queue 100");
    screen.keys(&["C-u"]);
    screen.write("bw 8Mbit/s");
    screen.shows("checked: Enter applies it");
    screen.keys(&["Enter"]);
    screen.shows("in force: to-left bw 8Mbit/s delay 5ms queue 100");
    assert_eq!(spec(&mut client), "bw 8Mbit/s delay 5ms queue 100");
    until("the transfer gets more", || rate(&mut client) > 5_000_000);
    screen.keys(&["r"]);
    screen.shows("to its initial configuration? y/n");
    screen.keys(&["y"]);
    screen.shows("in force: to-left bw 2Mbit/s");
    // The output of iperf3's client shows the new rate too, in kbit/s for each second.
    until("the client gets more", || {
        let text = std::fs::read_to_string(&got).unwrap_or_default();
        let rate = |line: &str| -> Option<f64> {
            line.split("Kbits/sec").next()?.split_whitespace().last()?.parse().ok()
        };
        text.lines().filter(|line| line.contains("Kbits/sec")).filter_map(rate).any(|r| r > 5e3)
    });
    assert_eq!(lab.weir(["stop", "seen"]).code, 0);
    session.finish();
    screen.shows("seen has ended");
    screen.keys(&["q", "q"]);
}

fn sizes(lab: &Lab) {
    let session = lab.start([
        "run",
        "--name",
        "fits",
        "--link",
        "4M/20ms",
        "--no-outside",
        "--",
        "sleep",
        "100",
    ]);
    connect("fits");
    let screen = Screen::open(lab, &[("NO_COLOR", "1".to_owned())]);
    screen.top("fits");
    screen.shows("fits down");
    screen.size(150, 40);
    screen.shows("specification");
    screen.size(40, 8);
    until("the heading fits", || !screen.text().contains("specification"));
    screen.shows("fits down");
    screen.size(80, 24);
    screen.shows("drops/s");
    screen.keys(&["?"]);
    screen.shows("any key goes back");
    screen.keys(&["x"]);
    let coloured = screen.tmux().args(["capture-pane", "-p", "-e"]).output().expect("tmux answers");
    let coloured = String::from_utf8_lossy(&coloured.stdout).into_owned();
    // 39 and 49 are the default colours.
    for number in (30..=38).chain(40..=48).chain(90..=107) {
        for end in ["m", ";"] {
            assert!(!coloured.contains(&format!("[{number}{end}")), "a colour: {coloured:?}");
        }
    }
    screen.keys(&["C-z"]);
    screen.shows("Stopped");
    screen.write("echo shell-$((40+2))");
    screen.keys(&["Enter"]);
    screen.shows("shell-42");
    screen.write("fg");
    screen.keys(&["Enter"]);
    screen.shows("fits down");
    screen.keys(&["p"]);
    screen.shows(" paused ");
    screen.keys(&["q"]);
    screen.write("echo back-$((40+3))");
    screen.keys(&["Enter"]);
    // The terminal echoes again, and shows its original screen.
    let text = screen.shows("back-43");
    assert!(text.contains("shell-42") && text.contains("echo back-$((40+3))"), "{text}");
    // After a signal, the view gives the terminal back too.
    screen.top("fits");
    screen.shows("fits down");
    let panes = ["list-panes", "-F", "#{pane_pid}"];
    let shell = screen.tmux().args(panes).output().expect("tmux answers").stdout;
    let shell = String::from_utf8_lossy(&shell).trim().to_owned();
    let pid = crate::common::output_of(&format!("pgrep -P {shell}"));
    let pid: i32 = pid.trim().parse().expect("a process");
    kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    screen.shows("ready>");
    screen.write("echo over-$((40+4))");
    screen.keys(&["Enter"]);
    screen.shows("over-44");
    assert_eq!(lab.weir(["stop", "fits"]).code, 0);
    session.finish();
}

fn daemon(lab: &Lab) {
    let wire = Wire::new();
    let daemon = Daemon::start(lab, &[]);
    let pipes: String =
        (1..=PIPES).map(|n| format!("pipe {n} config bw {n}Mbit/s queue 50\n")).collect();
    let seventh = "pipe 7 config bw 7Mbit/s delay 9ms queue 50\n";
    daemon.send(&format!("{pipes}{seventh}add 100 pipe 7 icmp from any to any"));
    wire.ping(true);
    let socket = lab.path("weir.sock").display().to_string();
    let screen = Screen::open(lab, &[("WEIR_SOCKET", socket)]);
    screen.top("-n 0.5 serve");
    // Each pipe has a row, and so has each of the two lanes of the bridge.
    screen.shows(&format!("daemon: {},{:03} rows", (PIPES + 2) / 1000, (PIPES + 2) % 1000));
    screen.keys(&["/"]);
    screen.write("delay 9ms");
    screen.keys(&["Enter"]);
    screen.shows("filter delay 9ms: 1 of ");
    screen.keys(&["Enter"]);
    screen.shows("bw 7Mbit/s delay 9ms queue 50");
    screen.keys(&["c"]);
    screen.shows("pipe 7 config bw 7Mbit/s delay 9ms queue 50");
    screen.keys(&["C-u"]);
    screen.write("pipe 7 config bw 3Mbit/s delay 9ms queue 20");
    screen.keys(&["Enter"]);
    screen.shows("in force: pipe 7 config bw 3Mbit/s delay 9ms queue 20");
    kill(daemon.pid(), Signal::SIGKILL).expect("it is alive");
    daemon.finish();
    screen.shows("! ");
    let daemon = Daemon::start(lab, &[]);
    until("the daemon is back", || !screen.text().contains("! "));
    screen.shows("bw 3Mbit/s delay 9ms queue 20");
    wire.ping(true);
    screen.keys(&["q", "q"]);
    drop(daemon);
}

fn once(lab: &Lab) {
    let send = format!(
        "sleep 0.5; {} send --to right:9000 -4 --count 100000 --pps 500 --size 500 >/dev/null",
        load()
    );
    let recv = format!("{} recv --bind 0.0.0.0:9000 --sent 100000 --idle 60 --json", load());
    let session = lab.start([
        "pair",
        "--name",
        "log",
        "--to-right",
        "bw 1Mbit/s queue 20",
        "--left",
        &send,
        "--right",
        &recv,
    ]);
    connect("log");
    let done = lab.weir(["top"]);
    assert_eq!(done.code, 2, "{done:?}");
    assert!(done.stderr.contains("--once"), "{done:?}");
    let mut last = lab.weir(["top", "--once"]);
    until("packets are dropped", || {
        last = lab.weir(["top", "--once", "--sort", "drops"]);
        assert_eq!(last.code, 0, "{last:?}");
        let row = last.stdout.lines().nth(1).unwrap_or_default();
        let cells: Vec<&str> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        // Twice the rate of the link is offered, so about half of the packets are dropped.
        cells.len() == 8 && cells[0] == "log to-right" && cells[5] != "0"
    });
    assert!(last.stdout.contains("bw 1Mbit/s queue 20"), "{last:?}");
    assert!(!last.stdout.contains('\x1b'), "{last:?}");
    let one = lab.weir(["top", "--once", "--filter", "to-left", "log"]);
    assert_eq!(one.stdout.lines().count(), 2, "{one:?}");
    assert_eq!(lab.weir(["stop", "log"]).code, 0);
    session.finish();
    let none = lab.weir(["top", "--once"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""), "{none:?}");
    assert!(none.stderr.contains("no links run"), "{none:?}");
}

/// Number of the daemon's pipes.
const PIPES: u32 = 2000;
