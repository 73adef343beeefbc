//! Tests `weir run` and `weir pair` with real programs: their links, their exit codes, and the
//! outputs of a run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::signal::{Signal, kill};

use crate::common::{
    Copies, Lab, NOBODY, Need, check_accounting, drops, find, link_from, load, number, output_of,
    trial, until,
};
use crate::outputs::serve;
use crate::shaping::judge_iperf;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("run_shapes_up_and_down_as_configured", &[Need::Root], up_and_down),
        trial("a_program_in_run_fetches_from_host", &[Need::Root], fetch),
        trial(
            "iperf3_is_held_to_the_rate_in_both_directions",
            &[Need::Program("iperf3"), Need::Root],
            iperf,
        ),
        trial("exit_codes_and_signals_pass_through", &[], exit_codes),
        trial("the_program_of_a_pair_that_fails_first_decides_its_exit_code", &[], pair_codes),
        trial("standard_streams_belong_to_the_program", &[], streams),
        trial("an_interrupt_ends_the_program_and_the_results_are_written", &[], interrupt),
        trial("report_and_capture_are_written", &[], report_and_capture),
        trial(
            "an_ordinary_user_gets_the_same_link",
            &[Need::Root, Need::Program("setpriv")],
            ordinary_user,
        ),
    ]
}

fn up_and_down(lab: &Lab) {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let recv = format!(
        "{load} recv --bind 0.0.0.0:9100 --idle 1 --sent 1000 --json --out {dir}/recv.json"
    );
    let receiver = lab.launch(Command::new("sh").args(["-c", &recv]));
    let echo =
        lab.launch(Command::new("sh").args(["-c", &format!("{load} echo --bind [::]:9101")]));
    let client = format!(
        "{load} ping --to host:9101 --count 20 --json --out {dir}/ping.json; \
         {load} send --to host:9100 -4 --count 1000 --rate 4M --size 1000 --json --out \
         {dir}/send.json; sleep 1"
    );
    let json = format!("{dir}/weir.json");
    let up_down = ["--up", "bw 2Mbit/s delay 10ms queue 20", "--down", "bw 8Mbit/s delay 15ms"];
    let done = lab.weir(
        ["run"].into_iter().chain(up_down).chain(["--json", &json, "--", "sh", "-c", &client]),
    );
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(receiver.finish().code, 0);
    drop(echo);
    let result = lab.document("weir.json");
    check_accounting(&result);
    assert_eq!(result["exit_code"].as_i64(), Some(0));
    let [up, down] = ["up", "down"].map(|name| crate::common::link(&result, name));
    assert_eq!((number(up, "rate_bps"), number(up, "delay_ns")), (2_000_000, 10_000_000));
    assert_eq!((number(down, "rate_bps"), number(down, "delay_ns")), (8_000_000, 15_000_000));
    let ping = lab.json("ping.json");
    assert_eq!(number(&ping, "lost"), 0, "{ping}");
    assert!(number(&ping["rtt_ns"], "min") >= 25_000_000, "10 ms up and 15 ms down: {ping}");
    let r = lab.reception("recv.json");
    assert!(r.bits_per_second < 2_000_000.0 * 1.02, "{} bit/s through 2 Mbit/s", r.bits_per_second);
    assert!(
        drops(up, "queue_full") >= r.lost && r.lost > 300,
        "4 Mbit/s do not fit into 2: lost {}, {up}",
        r.lost
    );
}

fn fetch(lab: &Lab) {
    let port = serve("x".repeat(200_000));
    let get = format!(
        "exec 3<>/dev/tcp/host/{port}; printf 'GET / HTTP/1.1\\r\\nHost: host\\r\\n\\r\\n' >&3; \
         cat <&3 | tail -c 200000 | tr -d x | wc -c"
    );
    let json = lab.path("weir.json").display().to_string();
    let done = lab.weir([
        "run", "--up", "1M/5ms", "--down", "4M/5ms", "--json", &json, "--", "bash", "-c", &get,
    ]);
    assert_eq!((done.code, done.stdout.trim()), (0, "0"), "{done:?}");
    let result = lab.document("weir.json");
    check_accounting(&result);
    let down = crate::common::link(&result, "down");
    assert!(number(down, "bytes_out") > 200_000, "{down}");
    // 200 kB at 4 Mbit/s take 400 ms.
    assert!(number(&result, "duration_ns") > 400_000_000, "{result}");
}

fn iperf(lab: &Lab) {
    for (reverse, limit) in [("", 8.0e6), ("-R", 20.0e6)] {
        let server = lab.launch(Command::new("iperf3").args(["-s", "-1"]));
        until("iperf3 listens", || output_of("ss -Hltn sport = 5201").contains("5201"));
        let dir = lab.path("").display().to_string();
        let client = format!("iperf3 -c host -t 2 -J {reverse} > {dir}/iperf.json");
        let json = format!("{dir}/weir.json");
        let done = lab.weir([
            "run", "--up", "8M/5ms", "--down", "20M/5ms", "--json", &json, "--", "sh", "-c",
            &client,
        ]);
        assert_eq!(done.code, 0, "{done:?} {}", lab.json("iperf.json"));
        // The server is not killed. It ends because it receives the end of the connection, although
        // the client has already ended.
        assert_eq!(server.finish().code, 0);
        let measured = lab.json("iperf.json");
        judge_iperf(&measured, limit, reverse);
        check_accounting(&lab.document("weir.json"));
    }
}

fn exit_codes(lab: &Lab) {
    let run = |words: &[&str]| lab.weir(["run", "--link", "4M/1ms", "--"].iter().chain(words));
    assert_eq!(run(&["true"]).code, 0);
    assert_eq!(run(&["sh", "-c", "exit 7"]).code, 7);
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).code, 128 + 15);
    let missing = run(&["no-such-program-anywhere"]);
    assert_eq!(missing.code, 127, "{missing:?}");
    assert!(missing.stderr.contains("no-such-program-anywhere"), "{missing:?}");
    let plain = lab.file("plain", "text");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).expect("permissions");
    assert_eq!(run(&[&plain]).code, 126);
}

fn pair_codes(lab: &Lab) {
    let pair = |left: &str, right: &str| {
        lab.weir(["pair", "--link", "10M/20ms", "--left", left, "--right", right])
    };
    for (left, right, code, says) in [
        ("exit 3", "sleep 1; exit 4", 3, "left program failed (exit code 3)"),
        ("exit 3", "sleep 1", 3, "left program failed (exit code 3)"),
        ("no-such-program-anywhere", "sleep 1", 127, "left program failed (exit code 127)"),
        ("exit 3", "sleep 100", 3, "was ended five seconds later"),
        ("sleep 100", "exit 4", 4, "right program failed (exit code 4)"),
    ] {
        let done = pair(left, right);
        assert_eq!(done.code, code, "{left} | {right}: {done:?}");
        let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(says), "{left} | {right}: {done:?}");
    }
    // The end of a server after its client is no failure, however the server ends.
    for left in ["sleep 100", "trap 'exit 9' TERM; sleep 100 & wait", "trap '' TERM; sleep 100"] {
        let done = pair(left, "sleep 0.5");
        assert_eq!(done.code, 0, "{left}: {done:?}");
        assert!(!done.stderr.contains("program failed"), "{left}: {done:?}");
    }
    assert_eq!(pair("true", "sleep 0.5; exit 5").code, 5);
}

fn streams(lab: &Lab) {
    let done =
        lab.weir(["run", "--link", "4M/1ms", "--", "sh", "-c", "printf data; printf words >&2"]);
    assert_eq!(done.stdout, "data", "stdout is the program's alone");
    assert!(done.stderr.contains("words"));
}

fn interrupt(lab: &Lab) {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let json = lab.path("weir.json");
        let shown = json.display().to_string();
        let running =
            lab.start(["run", "--link", "4M/1ms", "--json", &shown, "--", "sleep", "100.25"]);
        // The program runs without a shell, because dash ignores an interrupt that arrives while it
        // starts a command.
        until("the program runs", || !output_of("pgrep -xf 'sleep 100.25'").is_empty());
        match signal {
            Signal::SIGINT => running.signal_group(signal),
            _ => kill(running.pid(), signal).expect("weir runs"),
        }
        let done = running.finish();
        assert_eq!(done.code, code, "{signal}: {done:?}");
        check_accounting(&lab.document("weir.json"));
        fs::remove_file(&json).expect("the result is there");
        assert_eq!(output_of("pgrep -xf 'sleep 100.25'"), "", "{signal}: the program must be gone");
    }
}

fn report_and_capture(lab: &Lab) {
    let (load, dir) = (load(), lab.path("").display().to_string());
    let recv = format!("{load} recv --bind 0.0.0.0:9000 --idle 1 --json --out {dir}/recv.json");
    let send =
        format!("sleep 0.3; {load} send --to right:9000 -4 --count 500 --pps 1000 --size 300");
    let [json, pcap, html] =
        ["weir.json", "weir.pcapng", "report.html"].map(|f| format!("{dir}/{f}"));
    let done = lab.weir([
        "pair",
        "--link",
        "bw 1Mbit/s delay 5ms queue 20",
        "--json",
        &json,
        "--pcap",
        &pcap,
        "--report",
        &html,
        "--left",
        &send,
        "--right",
        &recv,
    ]);
    let result = lab.document("weir.json");
    check_accounting(&result);
    assert!(lab.reception("recv.json").received > 0, "{done:?}");
    assert!(done.stderr.contains(&format!("records in {pcap}, one for each")), "{done:?}");
    let html = fs::read_to_string(html).expect("a report");
    assert!(html.contains("<svg") && html.trim_end().ends_with("</html>"));
    assert!(
        !html.contains("src=\"http") && !html.contains("href=\"http"),
        "the report must need nothing from elsewhere"
    );
    if find("tshark").is_some() {
        let seen =
            output_of(&format!("tshark -r {pcap} -Y 'udp.port == 9000' 2>/dev/null | wc -l"));
        let received = lab.reception("recv.json").received;
        assert!(
            seen.trim().parse::<u64>().expect("a number") >= received,
            "{seen} frames captured, {received} received"
        );
    } else {
        assert!(fs::metadata(pcap).expect("a capture").len() > 500 * 100);
    }
}

fn ordinary_user(lab: &Lab) {
    let Copies { weir, load, home } = &Copies::make(lab);
    let echo = format!("id -u > {home}/uid; {load} echo --bind [::]:9000");
    let ping =
        format!("sleep 0.3; {load} ping --to left:9000 --count 20 --json --out {home}/ping.json");
    let json = format!("{home}/weir.json");
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).arg(weir).current_dir(home);
    command.args(["pair", "--link", "4M/10ms", "--json", &json, "--left", &echo, "--right", &ping]);
    let done = lab.launch(&mut command).finish();
    assert!(fs::exists(&json).is_ok_and(|exists| exists), "{done:?}");
    let result = lab.document("home/weir.json");
    check_accounting(&result);
    assert!(number(link_from(&result, "right"), "packets_out") >= 20);
    let answers = lab.json("home/ping.json");
    assert_eq!(number(&answers, "lost"), 0, "{answers}");
    assert!(number(&answers["rtt_ns"], "min") >= 20_000_000, "{answers}");
    assert_eq!(
        fs::read_to_string(format!("{home}/uid")).expect("the program ran").trim(),
        "65534",
        "the program runs as the user"
    );
}
