//! Tests the output of a run: captures with tshark, reports and pages with a browser, closed pipes,
//! destinations that cannot be written, and the mean rate in a result.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use libtest_mimic::Trial;

use crate::common::{
    Done, Lab, Need, Stream, check_accounting, drops, find, link, number, output_of, trial, until,
};
use crate::schema::document;

pub(crate) fn tests() -> Vec<Trial> {
    let chromium = &[Need::Program("chromium")];
    vec![
        trial(
            "a_capture_read_by_tshark_says_what_became_of_each_packet",
            &[Need::Program("tshark")],
            capture,
        ),
        trial("a_report_opens_in_a_browser_without_errors", chromium, report),
        trial(
            "a_reader_that_goes_away_costs_neither_the_exit_code_nor_the_results",
            &[],
            closed_pipes,
        ),
        trial("destinations_that_cannot_be_written_are_refused_before_the_run", &[], destinations),
        trial("a_result_has_the_mean_rate_of_a_table", &[], mean_rate),
        trial(
            "a_browser_loads_a_page_over_a_preset",
            &[Need::Program("chromium"), Need::Root],
            page,
        ),
    ]
}

fn capture(lab: &Lab) {
    let pcap = lab.path("weir.pcapng").display().to_string();
    let stream = Stream { count: 500, pps: 1_000, size: 300, ..Stream::default() };
    let spec = "bw 1Mbit/s delay 5ms queue 20 plr 5% loss 5% dup 5% corrupt 5%";
    let (r, result) = lab.stream_with(&["--pcap", &pcap], spec, 7, &stream);
    let field = |filter: &str, field: &str| {
        let text = output_of(&format!(
            "tshark -r {pcap} -Y 'frame.interface_name == \"to-right\" && ({filter})' -T fields \
             -e {field} 2>/dev/null"
        ));
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let to_right = link(&result, "to-right");
    let comments = field("frame.comment", "frame.comment");
    let with = |what: &str| comments.iter().filter(|c| c.contains(what)).count() as u64;
    for reason in ["queue_full", "loss_before_queue", "loss_on_link"] {
        assert!(drops(to_right, reason) > 5, "{reason} is to be seen in this test: {to_right}");
        assert_eq!(with(&format!("dropped: {reason}")), drops(to_right, reason), "{reason}");
    }
    assert_eq!(with("queue "), number(to_right, "packets_out"), "every departure has its times");
    assert_eq!(with("corrupted bit"), number(to_right, "corrupted"));
    assert_eq!(with(", duplicate"), number(to_right, "duplicated"));
    // Each packet is recorded at its arrival, and again at its departure or loss.
    let arrivals = field("!frame.comment", "frame.number").len() as u64;
    assert_eq!(arrivals, number(to_right, "packets_in"));
    assert!(number(to_right, "packets_out") >= r.received);
}

/// Runs a shell line in which `$weir` is the command and `$1` the result file.
fn run_line(lab: &Lab, line: &str) -> Done {
    let json = lab.path("weir.json").display().to_string();
    let mut command = Command::new("bash");
    command.args(["-c", line, "bash", &json]).env("weir", crate::common::weir());
    lab.launch(&mut command).finish()
}

fn closed_pipes(lab: &Lab) {
    // The program ignores SIGPIPE, so that a closed pipe does not end it.
    let noisy =
        "sh -c 'trap \"\" PIPE; for i in 1 2 3; do echo data; echo words >&2; done; exit 7'";
    for (streams, what) in [
        ("2>&1 | head -1", "both to a reader of one line"),
        ("2>&1 >/dev/null | true", "messages to a closed pipe"),
        ("| true", "data to a closed pipe"),
        (">&- 2>&-", "no streams at all"),
    ] {
        let line = format!(
            "$weir run --link 4M/1ms --json $1 --report $1.html -- {noisy} {streams}; echo ended \
             ${{PIPESTATUS[0]}}"
        );
        let done = run_line(lab, &line);
        assert!(done.stdout.ends_with("ended 7\n"), "{what}: {done:?}");
        assert!(!done.stderr.contains("panicked"), "{what}: {done:?}");
        check_accounting(&lab.document("weir.json"));
        std::fs::remove_file(lab.path("weir.json")).expect("the result was written");
    }
    let done = run_line(
        lab,
        "$weir run --link 4M/1ms --json - -- sh -c 'exit 7' | true; echo ended ${PIPESTATUS[0]}",
    );
    assert!(done.stdout == "ended 7\n" && !done.stderr.contains("panicked"), "{done:?}");
    for words in
        ["presets", "algorithms", "doctor", "man", "completions bash", "check 4M/20ms", "--help"]
    {
        // The command starts to write when the pipe no longer has a reader.
        let done =
            run_line(lab, &format!("{{ sleep 0.1; $weir {words}; echo ended $? >&2; }} | true"));
        assert!(
            done.stderr.contains("ended 0") && !done.stderr.contains("panicked"),
            "{words}: {done:?}"
        );
    }
}

fn destinations(lab: &Lab) {
    let (directory, nowhere) =
        (lab.path("").display().to_string(), lab.path("nowhere/file").display().to_string());
    let marker = lab.path("ran").display().to_string();
    for option in ["--json", "--report", "--pcap"] {
        for (path, message) in [
            ("-", "only --json writes to standard output"),
            (&directory, "is a directory"),
            (&nowhere, "nowhere"),
        ] {
            if (option, path) == ("--json", "-") {
                continue;
            }
            let done = lab.weir(["run", "--link", "4M", option, path, "--", "touch", &marker]);
            assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{option} {path}: {done:?}");
            assert!(done.stderr.contains(message), "{option} {path}: {done:?}");
            assert!(
                !lab.path("ran").exists(),
                "{option} {path}: the program must not run for nothing"
            );
        }
    }
    let done = lab.weir(["run", "--link", "4M", "--json", "-", "--", "true"]);
    check_accounting(&document(done.stdout.as_bytes()));
    // A file named `-` can only be given with a directory in front.
    let done = run_line(
        lab,
        "cd ${1%/*} && $weir run --link 4M --pcap ./- --report ./-.html -- true && ls -- - -.html",
    );
    assert_eq!((done.code, done.stdout.as_str()), (0, "-\n-.html\n"), "{done:?}");
}

/// The result has the means over the run. Over whole periods of 0.2 s they are 3.25 Mbit/s and
/// 32.5 ms; at any other time after the first second they are at most 4 % lower.
fn mean_rate(lab: &Lab) {
    let csv = lab.file("rates.csv", "time,rate,delay\n0,1Mbit/s,10ms\n0.05,4Mbit/s,40ms\n0.2,,\n");
    let result = lab.pair(&format!("trace {csv}"), 7, "sleep 1", "sleep 1");
    for name in ["to-left", "to-right"] {
        let link = link(&result, name);
        assert!((3_120_000..=3_250_000).contains(&number(link, "rate_bps")), "{link}");
        assert!((31_200_000..=32_500_000).contains(&number(link, "delay_ns")), "{link}");
    }
}

/// Opens a page in a browser with a new profile; stderr contains the console's messages.
fn browse(lab: &Lab, prefix: &[&str], url: &str) -> Done {
    let chromium = find("chromium").expect("checked before");
    let profile = format!("--user-data-dir={}", lab.path("profile").display());
    let mut command = match prefix {
        [] => Command::new(&chromium),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(&chromium);
            command
        }
    };
    command.args(FLAGS).args(["--enable-logging=stderr", "--dump-dom", &profile, url]);
    lab.launch(&mut command).finish()
}

fn report(lab: &Lab) {
    let html = lab.path("report.html").display().to_string();
    let stream = Stream { count: 1_500, pps: 1_000, size: 600, ..Stream::default() };
    let (r, _) = lab.stream_with(
        &["--report", &html],
        "bw 2Mbit/s delay 10ms jitter 2ms reorder loss 1%",
        7,
        &stream,
    );
    assert!(r.received > 0);
    // A page with an error shows that the test would detect errors.
    let broken = lab.file(
        "broken.html",
        "<!doctype html><title>b</title><script>console.error('seen ' + 6 * 7)</script>",
    );
    assert!(
        browse(lab, &[], &format!("file://{broken}")).stderr.contains("seen 42"),
        "the browser does not report errors"
    );
    let done = browse(lab, &[], &format!("file://{html}"));
    assert!(done.stdout.contains("<svg") && done.stdout.contains("to-right"), "{done:?}");
    let console: Vec<_> = done.stderr.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
}

/// Serves one page over HTTP until the test program ends; returns the port.
pub(crate) fn serve(page: String) -> u16 {
    let listener = TcpListener::bind("[::]:0").expect("listen");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let page = page.clone();
            std::thread::spawn(move || answer(stream, &page));
        }
    });
    port
}

/// Answers one request. A client may disconnect at any time.
fn answer(mut stream: TcpStream, page: &str) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(page.as_bytes()));
}

fn page(lab: &Lab) {
    // The page reports the time to its first byte, which takes two round trips of 300 ms.
    let script = "const t = performance.timing; document.write('first byte after ' + \
        (t.responseStart - t.fetchStart) + ' ms')";
    let port = serve(format!(
        "<!doctype html><title>t</title><script>{script}</script><!-- {} -->",
        "x".repeat(50_000)
    ));
    let json = lab.path("weir.json").display().to_string();
    let url = format!("http://host:{port}/");
    let done =
        browse(lab, &[crate::common::weir(), "run", "--preset", "3g", "--json", &json, "--"], &url);
    assert_eq!(done.code, 0, "{done:?}");
    let took = done
        .stdout
        .split("first byte after ")
        .nth(2)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|ms| ms.parse::<u64>().ok());
    let took = took.unwrap_or_else(|| panic!("the page did not run: {done:?}"));
    // The four crossings of 150 ms have a standard deviation of 15 ms each. If they were
    // independent, 420 ms would be 600 ms minus six standard deviations.
    assert!(took >= 420, "{took} ms for two round trips of 300 ms");
    let result = lab.document("weir.json");
    check_accounting(&result);
    assert!(number(link(&result, "down"), "bytes_out") > 50_000, "{result}");
    until("the browser is gone", || {
        output_of(&format!("pgrep -f '[u]ser-data-dir={}'", lab.path("profile").display()))
            .is_empty()
    });
}

/// Flags with which a browser opens no window and sends no traffic of its own.
const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
