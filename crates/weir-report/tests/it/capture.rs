//! Captures: what other programs read, which files are replaced or refused, and a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_core::stats::DropReason;
use weir_report::CaptureFile;
use weir_report::pcap::{Event, Interface, LinkType, Meta};

#[test]
fn tshark_reads_what_was_written() {
    let path = scratch("tshark.pcapng");
    capture(&path, 5);
    let Some(text) = tshark(&path) else {
        return;
    };
    let _ = std::fs::remove_file(&path);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert_eq!(
        lines[0],
        ["1700000000.123456789", "up", "queue 1.234 ms, total 21.300 ms", "0x00000002", "10.0.0.1"]
    );
    assert_eq!(lines[1][1..4], ["down", "dropped: queue_full", "0x00000001"]);
    assert_eq!(lines[2][2], "queue 0.000 ms, total 20.000 ms, duplicate, corrupted bit 123");
    assert_eq!(lines[3][2], "");
}

#[test]
fn every_packet_is_in_the_file_or_counted_as_missed() {
    let path = scratch("many.pcapng");
    let mut capture = CaptureFile::create(&path, "weir test", &interfaces(), 64).unwrap();
    let frame = vec![0x45; 1500];
    (0..50_000).for_each(|i| capture.write(&meta(0, i, Event::Arrived), &frame));
    let report = capture.finish(7);
    assert!(report.error.is_none());
    assert_eq!((report.written, report.dropped), (50_000, 7));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), report.bytes);
    assert_eq!(packets_in(&path), 50_000);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn flushed_packets_are_readable_during_the_capture() {
    let path = scratch("flushed.pcapng");
    let mut capture = CaptureFile::create(&path, "weir test", &interfaces(), 0).unwrap();
    capture.write(&meta(0, 0, Event::Arrived), &ip_packet());
    capture.flush();
    assert_eq!(packets_in(capture.growing()), 1);
    capture.write(&meta(0, 1, Event::Arrived), &ip_packet());
    assert_eq!(capture.finish(0).written, 2);
    assert_eq!(packets_in(&path), 2);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_existing_file_stays_until_the_new_capture_is_complete() {
    let path = scratch("existing.pcapng");
    std::fs::write(&path, "the capture before").unwrap();
    let mut capture = CaptureFile::create(&path, "weir test", &interfaces(), 0).unwrap();
    capture.write(&meta(0, 0, Event::Arrived), &ip_packet());
    capture.flush();
    assert_eq!(std::fs::read(&path).unwrap(), b"the capture before");
    assert_eq!(capture.finish(0).written, 1);
    assert_eq!(packets_in(&path), 1);
    // A capture that ends without `finish`, for example in a panic, keeps its packets too.
    let mut capture = CaptureFile::create(&path, "weir test", &interfaces(), 0).unwrap();
    (0..2).for_each(|i| capture.write(&meta(0, i, Event::Arrived), &ip_packet()));
    drop(capture);
    assert_eq!(packets_in(&path), 2);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_link_that_a_stranger_puts_into_a_public_directory_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    if !rustix::process::geteuid().is_root() {
        return; // Only root can make a link of another user.
    }
    let directory = scratch("public");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let (victim, link) = (directory.join("victim"), directory.join("x.pcapng"));
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, &link).unwrap();
    CaptureFile::create(&link, "weir test", &interfaces(), 0).unwrap();
    std::fs::write(&victim, "precious").unwrap();
    lchown(&link, Some(12_345), None).unwrap();
    let error = CaptureFile::create(&link, "weir test", &interfaces(), 0).unwrap_err();
    assert!(error.to_string().contains("symbolic link of another user"), "{error}");
    assert!(weir_report::write_atomic(&link, b"x").is_err());
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_and_traffic_continues() {
    let mut capture =
        CaptureFile::create(Path::new("/dev/full"), "weir test", &interfaces(), 0).unwrap();
    for i in 0..1000 {
        capture.write(&meta(0, i, Event::Arrived), &[0x45; 1500]);
    }
    let report = capture.finish(0);
    assert_eq!((report.written, report.dropped), (0, 1000));
    assert!(report.error.unwrap().to_string().contains("/dev/full"));
}

#[test]
fn a_capture_that_cannot_be_made_is_an_error_at_once() {
    let error = CaptureFile::create(
        Path::new("/no/such/directory/x.pcapng"),
        "weir test",
        &interfaces(),
        0,
    )
    .unwrap_err();
    assert!(error.to_string().contains("/no/such/directory/x.pcapng"));
}

fn capture(path: &Path, count: usize) {
    let mut capture = CaptureFile::create(path, "weir test", &interfaces(), 0).unwrap();
    let left = |duplicate, corrupted| Event::Left {
        queue_ns: 0,
        total_ns: 20_000_000,
        marked: false,
        duplicate,
        corrupted,
    };
    let first = Event::Left {
        queue_ns: 1_234_567,
        total_ns: 21_300_000,
        marked: false,
        duplicate: false,
        corrupted: None,
    };
    let dropped = Event::Dropped { reason: DropReason::QueueFull };
    let events = [
        (0, first),
        (1, dropped),
        (0, left(true, Some(123))),
        (1, Event::Arrived),
        (0, left(false, None)),
    ];
    for (i, (interface, event)) in events.into_iter().take(count).enumerate() {
        capture.write(&meta(interface, i as u64, event), &ip_packet());
    }
    let report = capture.finish(0);
    assert!(
        report.error.is_none() && report.written == count as u64 && report.dropped == 0,
        "{report:?}"
    );
}

fn meta(interface: u32, i: u64, event: Event) -> Meta {
    Meta { interface, unix_ns: 1_700_000_000_123_456_789 + i * 1000, original_len: 1500, event }
}

fn interfaces() -> Vec<Interface> {
    [("up", "program → network"), ("down", "network → program")]
        .map(|(name, d)| Interface {
            name: name.to_owned(),
            description: d.to_owned(),
            link_type: LinkType::RawIp,
        })
        .to_vec()
}

/// An IPv4 header and 8 bytes of UDP.
fn ip_packet() -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    p.extend([0x30, 0x39, 0, 53, 0, 8, 0, 0]);
    p
}

fn packets_in(path: &Path) -> u64 {
    let mut reader =
        pcap_file::pcapng::PcapNgReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut n = 0;
    while let Some(block) = reader.next_block() {
        n += u64::from(block.unwrap().into_enhanced_packet().is_some());
    }
    n
}

fn tshark(path: &Path) -> Option<String> {
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.comment",
        "frame.packet_flags",
        "ip.src",
    ];
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields"]);
    fields.iter().for_each(|f| {
        command.args(["-e", f]);
    });
    match command.output() {
        Ok(out) => {
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            Some(String::from_utf8(out.stdout).unwrap())
        }
        Err(_) => {
            skipped("tshark is not installed");
            None
        }
    }
}

/// Reports a test that cannot run, on stderr and in the log of skipped tests.
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
    if let Some(log) = std::env::var_os("WEIR_SKIP_LOG")
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(log)
    {
        let _ = std::io::Write::write_all(&mut file, format!("SKIPPED: {why}\n").as_bytes());
    }
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("weir-capture-{}-{name}", std::process::id()))
}
