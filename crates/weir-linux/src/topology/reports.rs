//! The kernel's reports of multicast groups, which follow the start of an interface.
//!
//! The kernel joins the solicited-node group of each IPv6 address and reports each group (RFC 3810,
//! section 6.1): `mld_qrv` times because the group is new, and as often again in the initial
//! reports, which begin once the interface has its link-local address. The initial reports do not
//! wait for the groups of the other addresses, so the first initial report may lack those groups.
//! When each group was reported as often as expected, no further report can follow.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;

use crate::netns::read_setting;

/// The reports of one interface that are still to come.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// The number of outstanding reports for each group; `None` when the groups are unknown.
    left: Option<BTreeMap<Ipv6Addr, u32>>,
    has_begun: bool,
}

impl Reports {
    /// The reports that follow the start of `interface`, which is in the calling thread's
    /// namespace and has just been started.
    pub(super) fn expected(interface: &str) -> Self {
        let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        // Without IPv6 there are no such files and no reports.
        let addresses = read("if_inet6").unwrap_or_default();
        let groups = read("igmp6").unwrap_or_default();
        let robustness = read_setting("ipv6/mld_qrv").ok().and_then(|number| number.parse().ok());
        Self::of(interface, &addresses, &groups, robustness.unwrap_or(ROBUSTNESS))
    }

    fn of(interface: &str, addresses: &str, groups: &str, robustness: u32) -> Self {
        let mut left = BTreeMap::new();
        for line in groups.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, name, group, _, flags, ..] = words[..] else { continue };
            let (group, flags) = (to_ipv6(group), u32::from_str_radix(flags, 16).unwrap_or(0));
            if let Some(group) = group.filter(|_| name == interface && flags & NOT_REPORTED == 0) {
                left.insert(group, 2 * robustness - 1);
            }
        }
        for line in addresses.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, _, _, scope, _, name] = words[..] else { continue };
            if let Some(address) = to_ipv6(address).filter(|_| name == interface) {
                let initial = if scope == LINK_LOCAL { robustness } else { robustness - 1 };
                let reports = left.entry(solicited_node(address)).or_default();
                *reports = (*reports).max(robustness + initial);
            }
        }
        Self { left: Some(left), has_begun: false }
    }

    /// Whether no further report can follow.
    pub(super) fn are_complete(&self) -> bool {
        self.left.as_ref().is_some_and(|left| left.values().all(|&left| left == 0))
    }

    /// Whether a report was seen, or none is to come.
    pub(super) fn have_begun(&self) -> bool {
        self.has_begun || self.left.as_ref().is_none_or(BTreeMap::is_empty)
    }

    /// Notes a frame of the interface.
    pub(super) fn note(&mut self, frame: &[u8]) {
        let Some(left) = &mut self.left else { return };
        for group in reported(frame) {
            self.has_begun = true;
            if let Some(left) = left.get_mut(&group) {
                *left = left.saturating_sub(1);
            }
        }
    }
}

/// The group to which neighbours send solicitations for an address (RFC 4291, section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0xff, b)
}

/// The groups in a frame that is a version 2 report (RFC 3810, section 5.2); none in other frames.
fn reported(frame: &[u8]) -> impl Iterator<Item = Ipv6Addr> {
    let is_report = frame.get(12..14) == Some(&[0x86, 0xdd])
        && frame.get(ETHERNET + 6) == Some(&HOP_BY_HOP)
        && frame.get(ETHERNET + IPV6) == Some(&ICMPV6)
        && frame.get(REPORT) == Some(&REPORT_VERSION_2);
    let mut rest = if is_report { frame.get(REPORT + 8..).unwrap_or_default() } else { &[] };
    std::iter::from_fn(move || {
        let (record, after) = rest.split_at_checked(RECORD)?;
        let sources = usize::from(u16::from_be_bytes([record[2], record[3]]));
        rest = after.get(16 * sources + 4 * usize::from(record[1])..).unwrap_or_default();
        Some(Ipv6Addr::from(*record.last_chunk::<16>()?))
    })
}

/// An address in the kernel's lists: 32 hexadecimal digits.
fn to_ipv6(digits: &str) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?))
}

/// The usual number of reports of a change (RFC 3810, section 9.1).
const ROBUSTNESS: u32 = 2;
/// The scope of a link-local address in `/proc/net/if_inet6`.
const LINK_LOCAL: &str = "20";
/// The flag in `/proc/net/igmp6` of a group that is never reported.
const NOT_REPORTED: u32 = 8;
/// Bytes of an Ethernet header and of an IPv6 header.
const ETHERNET: usize = 14;
const IPV6: usize = 40;
/// The protocol numbers of the hop-by-hop header and of ICMPv6.
const HOP_BY_HOP: u8 = 0;
const ICMPV6: u8 = 58;
/// Offset of the report in a frame, after the router alert.
const REPORT: usize = ETHERNET + IPV6 + 8;
const REPORT_VERSION_2: u8 = 143;
/// The bytes of a record before its sources.
const RECORD: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: &str = "\
        00000000000000000000000000000001 01 80 10 80       lo\n\
        fe80000000000000000000fffe000002 02 40 20 80     eth0\n\
        fd776569724800000000000000000002 02 40 00 82     eth0\n";
    const GROUPS: &str = "\
        1    lo              ff020000000000000000000000000001     1 0000000C 0\n\
        2    eth0            ff020000000000000000000000000002     1 00000004 0\n\
        2    eth0            ff020000000000000000000000000001     1 0000000C 0\n\
        2    eth0            ff010000000000000000000000000001     1 00000008 0\n";

    /// A report of these groups, as a frame.
    fn report(groups: &[&str]) -> Vec<u8> {
        let mut frame = vec![0; REPORT + 8];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[ETHERNET + IPV6] = ICMPV6;
        frame[REPORT] = REPORT_VERSION_2;
        for group in groups {
            frame.extend_from_slice(&[4, 0, 0, 0]);
            frame.extend_from_slice(&group.parse::<Ipv6Addr>().unwrap().octets());
        }
        frame
    }

    #[test]
    fn reports_are_complete_when_each_group_was_reported_often_enough() {
        let mut reports = Reports::of("eth0", ADDRESSES, GROUPS, 2);
        let (own, routers, public) = ("ff02::1:ff00:2", "ff02::2", "ff02::1:ff00:2");
        assert_eq!(own, public, "both addresses end with the same bytes");
        for step in 0..4 {
            assert!(!reports.are_complete(), "after {step} reports");
            reports.note(&report(&[own, routers]));
        }
        assert!(reports.are_complete());
        reports.note(&report(&[own]));
        assert!(reports.are_complete());
    }

    #[test]
    fn the_group_of_another_address_may_be_missing_in_the_first_report() {
        let addresses = ADDRESSES.replace("0000000000000002 02 40 00", "0000000000000007 02 40 00");
        let mut reports = Reports::of("eth0", &addresses, "", 2);
        reports.note(&report(&["ff02::1:ff00:2"]));
        for _ in 0..3 {
            assert!(!reports.are_complete());
            reports.note(&report(&["ff02::1:ff00:2", "ff02::1:ff00:7"]));
        }
        assert!(reports.are_complete());
    }

    #[test]
    fn an_interface_without_ipv6_sends_no_reports() {
        assert!(Reports::of("eth1", ADDRESSES, GROUPS, 2).are_complete());
        assert!(Reports::of("eth0", "", "", 2).are_complete());
        assert!(!Reports::default().are_complete(), "nothing is known");
    }

    #[test]
    fn other_frames_are_not_counted_as_reports() {
        let whole = report(&["ff02::1:ff00:2", "ff02::2"]);
        assert_eq!(reported(&whole).count(), 2);
        for end in 0..whole.len() {
            assert!(reported(&whole[..end]).count() < 2, "{end} bytes");
        }
        let mut other = whole.clone();
        other[REPORT] = 135;
        assert_eq!(reported(&other).count(), 0);
        let mut long = whole;
        (long[REPORT + 10], long[REPORT + 11]) = (0xff, 0xff);
        assert_eq!(
            reported(&long).count(),
            1,
            "the first record claims more sources than the frame has"
        );
    }
}
