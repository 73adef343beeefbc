//! Tests that bridges pass frames unmodified, with VLAN tags and in jumbo sizes, and that
//! namespaces carry jumbo packets. Also tests bridges with interfaces that are missing, vanish or
//! are down for a while.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::process::Command;

use libtest_mimic::Trial;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, sendto, socket,
};

use crate::common::{
    Lab, Need, Pairs, Stream, check_accounting, drops, link, must, number, output_of, trial, until,
};

pub(crate) fn tests() -> Vec<Trial> {
    let bridge = &[Need::Root, Need::Program("tcpdump")];
    vec![
        trial("a_bridge_carries_vlan_frames_byte_for_byte", bridge, vlan),
        trial("a_bridge_refuses_frames_that_the_other_side_does_not_take", bridge, too_large),
        trial("a_missing_interface_is_named_with_the_existing_interfaces", &[], unknown),
        trial(
            "a_vanished_interface_ends_the_bridge_with_correct_accounting",
            &[Need::Root],
            vanished,
        ),
        trial(
            "an_interface_that_was_down_for_a_while_is_named_with_what_could_not_be_sent",
            &[Need::Root],
            down_for_a_while,
        ),
        trial(
            "a_larger_mtu_carries_jumbo_packets_and_the_usual_one_does_not",
            &[Need::Root],
            jumbo,
        ),
    ]
}

/// Sends complete frames, including headers, through an interface.
fn inject(interface: &str, frames: &[Vec<u8>]) {
    let raw =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None::<SockProtocol>)
            .expect("a raw socket");
    let mut interfaces = nix::ifaddrs::getifaddrs().expect("interfaces");
    let address = interfaces
        .find_map(|i| i.address.filter(|_| i.interface_name == interface)?.as_link_addr().copied());
    let address: LinkAddr = address.expect("the interface has a link address");
    for frame in frames {
        assert_eq!(sendto(raw.as_raw_fd(), frame, &address, MsgFlags::empty()), Ok(frame.len()));
    }
}

/// A broadcast frame with these bytes after its addresses, filled with a pattern up to `len` bytes.
/// Its source address ends in `mark`.
fn frame(after_addresses: &[u8], len: usize, mark: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0x77, mark]);
    frame.extend(after_addresses);
    let filled = frame.len()..len;
    frame.extend(filled.map(|i| (i as u8).wrapping_mul(31) ^ mark));
    frame
}

/// The frames made by [`frame`] in a capture file of tcpdump.
fn captured(path: &std::path::Path) -> Vec<Vec<u8>> {
    let file = fs::read(path).unwrap_or_default();
    let mut rest = file.get(24..).unwrap_or_default();
    let mut frames = Vec::new();
    while rest.len() >= 16 {
        let len = u32::from_le_bytes([rest[8], rest[9], rest[10], rest[11]]) as usize;
        let Some(bytes) = rest.get(16..16 + len) else { break };
        frames.push(bytes.to_vec());
        rest = &rest[16 + len..];
    }
    frames.retain(|f| f.get(6..11) == Some(&[2, 0, 0, 0, 0x77]));
    frames
}

/// Starts a bridge between the two pairs, and a capture at the right host. Sends the frames from
/// the left host, and waits until `expected` frames arrive. Returns all frames that arrived, and
/// the result.
fn through_bridge(
    lab: &Lab,
    frames: &[Vec<u8>],
    expected: usize,
) -> (Vec<Vec<u8>>, serde_json::Value) {
    let (json, pcap) = (lab.path("weir.json").display().to_string(), lab.path("out.pcap"));
    let mut capture = Command::new("tcpdump");
    capture.args(["-i", "wra", "-nn", "-U", "-s", "0", "-w"]).arg(&pcap);
    let capture = lab.launch(&mut capture);
    until("tcpdump listens", || capture.stderr().contains("listening"));
    let bridge = lab.start(["bridge", "wlb", "wrb", "--link", "10M/5ms", "--json", &json]);
    // Repeat a first frame until one arrives: the bridge then works.
    until("the bridge carries frames", || {
        inject("wla", &[frame(&[0x88, 0xb5], 60, 0)]);
        captured(&pcap).iter().any(|f| f[11] == 0)
    });
    inject("wla", frames);
    let ours = || captured(&pcap).into_iter().filter(|f| f[11] != 0).collect::<Vec<_>>();
    until("the frames arrive", || ours().len() >= expected);
    bridge.signal_group(nix::sys::signal::Signal::SIGINT);
    let done = bridge.finish();
    assert_eq!(done.code, 0, "{done:?}");
    drop(capture);
    let result = lab.document("weir.json");
    check_accounting(&result);
    (ours(), result)
}

fn vlan(lab: &Lab) {
    let _pairs = Pairs::make();
    // The types inside the tags of the first two frames are IPv4 and IPv6. The packets themselves
    // are invalid, which does not matter to a bridge.
    let frames = [
        frame(&[0x81, 0x00, 0xa0, 0x2a, 0x08, 0x00], 200, 1),
        frame(&[0x88, 0xa8, 0x00, 0x64, 0x81, 0x00, 0x0f, 0xff, 0x86, 0xdd], 300, 2),
        frame(&[0x81, 0x00, 0x00, 0x00, 0x88, 0xb5], 64, 3),
        frame(&[0x88, 0xb5], 60, 4),
    ];
    let (seen, result) = through_bridge(lab, &frames, frames.len());
    assert_eq!(seen, frames, "tags, priorities and contents arrive as they were sent");
    assert!(number(link(&result, "to-right"), "packets_out") >= 4);
    // The kernel's own packets from the right can still be in the delay line at the end.
    let back = link(&result, "to-left");
    assert_eq!(
        number(back, "packets_out") + number(back, "backlog_packets"),
        number(back, "packets_in"),
        "{back}"
    );
}

fn too_large(lab: &Lab) {
    let _pairs = Pairs::make();
    must("ip link set wla mtu 9000 && ip link set wlb mtu 9000");
    let (small, large) = (frame(&[0x88, 0xb5], 1_514, 2), frame(&[0x88, 0xb5], 3_014, 1));
    let (seen, result) = through_bridge(lab, &[large.clone(), large, small.clone()], 1);
    assert_eq!(seen, [small], "a frame longer than the other side's MTU cannot arrive");
    assert_eq!(drops(link(&result, "to-right"), "too_long"), 2, "it is counted: {result}");
    // With a sufficient MTU on both sides, the frame arrives.
    must("ip link set wra mtu 9000 && ip link set wrb mtu 9000");
    let large = frame(&[0x88, 0xb5], 9_014, 3);
    let (seen, _) = through_bridge(lab, std::slice::from_ref(&large), 1);
    assert_eq!(seen.last(), Some(&large));
}

fn unknown(lab: &Lab) {
    let done = lab.weir(["bridge", "nowhere0", "lo", "--link", "1M"]);
    assert_eq!(done.code, 125, "{done:?}");
    assert!(
        done.stderr.contains("nowhere0") && done.stderr.contains("lo"),
        "name what is missing and what is there: {done:?}"
    );
    let done = lab.weir(["bridge", "lo", "lo"]);
    assert!(done.code == 2 && done.stderr.contains("two different interfaces"), "{done:?}");
}

fn vanished(lab: &Lab) {
    let _pairs = Pairs::make();
    let json = lab.path("weir.json").display().to_string();
    let mut running = lab.start(["bridge", "wlb", "wrb", "--link", "10M/5ms", "--json", &json]);
    // Broadcasts from the left host need no address resolution.
    let mut flood = Command::new("sh");
    flood.args(["-c", "ip addr add 10.77.0.1/24 dev wla; exec ping -q -b -i 0.005 10.77.0.255"]);
    let _flood = lab.launch(&mut flood);
    let received = || {
        output_of("cat /proc/net/dev | awk '$1 == \"wra:\" {print $3}'")
            .trim()
            .parse::<u64>()
            .unwrap_or(0)
    };
    let at_start = received();
    until("frames cross the bridge", || received() > at_start + 20);
    assert!(running.alive(), "{}", running.stderr());
    must("ip link del wrb");
    let done = running.finish();
    assert_ne!(done.code, 0, "a bridge that lost an end has failed: {done:?}");
    assert!(done.stderr.contains("wrb"), "the message must name the interface: {done:?}");
    check_accounting(&lab.document("weir.json"));
}

fn down_for_a_while(lab: &Lab) {
    let _pairs = Pairs::make();
    let json = lab.path("weir.json").display().to_string();
    let bridge = lab.start(["bridge", "wlb", "wrb", "--link", "10M/5ms", "--json", &json]);
    let received = || {
        output_of("cat /proc/net/dev | awk '$1 == \"wra:\" {print $3}'")
            .trim()
            .parse::<u64>()
            .unwrap_or(0)
    };
    let send_one = || inject("wla", &[frame(&[0x88, 0xb5], 60, 1)]);
    let crosses = |what: &str| {
        let before = received();
        until(what, || {
            send_one();
            received() > before + 5
        });
    };
    crosses("frames cross the bridge");
    must("ip link set wrb down");
    (0..300).for_each(|_| send_one());
    std::thread::sleep(std::time::Duration::from_millis(200));
    must("ip link set wrb up");
    crosses("frames cross again");
    bridge.signal_group(nix::sys::signal::Signal::SIGINT);
    let done = bridge.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let result = lab.document("weir.json");
    check_accounting(&result);
    assert!(drops(link(&result, "to-right"), "send_failed") >= 250, "{result}");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("interface wrb: it was down once"), "{warnings}");
    assert!(warnings.contains("could not be sent to wrb"), "{warnings}");
    assert!(!warnings.contains("the run ended there"), "{warnings}");
}

fn jumbo(lab: &Lab) {
    let stream = Stream { count: 500, pps: 500, size: 8_900, ..Stream::default() };
    let (r, summary) = lab.stream_with(&["--mtu", "9000"], "bw 50Mbit/s delay 2ms", 7, &stream);
    assert_eq!((r.lost, r.bytes), (0, 500 * 8_900));
    let to_right = link(&summary, "to-right");
    assert!(
        (500..520).contains(&number(to_right, "packets_in")),
        "one packet each, not fragments: {to_right}"
    );
    // With the usual MTU the kernel splits each packet into six fragments, which the receiver
    // reassembles.
    let (r, summary) = lab.stream("bw 50Mbit/s delay 2ms queue 1000", 7, &stream);
    assert_eq!((r.lost, r.bytes), (0, 500 * 8_900));
    let to_right = link(&summary, "to-right");
    assert!(
        (3_000..3_020).contains(&number(to_right, "packets_in")),
        "six fragments each: {to_right}"
    );
    for (mtu, code) in [("575", 2), ("65522", 2), ("576", 0)] {
        let done =
            lab.weir(["pair", "--mtu", mtu, "--link", "1M", "--left", "true", "--right", "true"]);
        assert_eq!(done.code, code, "--mtu {mtu}: {done:?}");
        assert!(
            code == 0 || done.stderr.contains("576"),
            "--mtu {mtu}: say what is allowed: {done:?}"
        );
    }
}
