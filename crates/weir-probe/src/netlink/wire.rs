//! Traffic control over a netlink socket: two queries and the kernel's answers.
//!
//! Both queries share one encoded message, in which each query sets a few fields. Answers are
//! parsed in place. Layouts are those of `linux/netlink.h`, `linux/rtnetlink.h` and
//! `linux/gen_stats.h`, in the byte order of the machine.

use std::io;

use netlink_sys::{Socket, protocols::NETLINK_ROUTE};

/// One queueing discipline at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) ifindex: u32,
    pub(super) handle: u32,
    pub(super) parent: u32,
    pub(super) kind: [u8; KIND],
    pub(super) qlen: u32,
    pub(super) backlog: u32,
    pub(super) drops: u32,
    pub(super) requeues: u32,
    pub(super) overlimits: u32,
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) shaping: Shaping,
}

/// The rate and the limits of a discipline; 0 if it has none or does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shaping {
    pub(super) rate_bps: u64,
    pub(super) burst_bytes: u64,
    pub(super) limit_packets: u32,
    pub(super) limit_bytes: u32,
}

impl Answer {
    /// Whether both answers describe the same discipline.
    pub(super) fn same_queue(&self, other: &Answer) -> bool {
        (self.ifindex, self.handle, self.parent, self.kind)
            == (other.ifindex, other.handle, other.parent, other.kind)
    }

    pub(super) fn kind(&self) -> String {
        String::from_utf8_lossy(self.kind_bytes()).into_owned()
    }

    fn kind_bytes(&self) -> &[u8] {
        let end = self.kind.iter().position(|&byte| byte == 0).unwrap_or(KIND);
        &self.kind[..end]
    }

    pub(super) fn is_root(&self) -> bool {
        self.parent == TC_H_ROOT
    }

    /// Parses the body of a message: a `tcmsg` and attributes. `None` if it is too short.
    fn read(body: &[u8]) -> Option<Answer> {
        let mut answer = Answer {
            ifindex: u32_at(body, 4)?,
            handle: u32_at(body, 8)?,
            parent: u32_at(body, 12)?,
            ..Answer::default()
        };
        let mut options: &[u8] = &[];
        for (kind, value) in attributes(body.get(TCMSG..)?) {
            match kind {
                TCA_OPTIONS => options = value,
                TCA_KIND => {
                    let length = value.len().min(KIND);
                    answer.kind[..length].copy_from_slice(&value[..length]);
                }
                TCA_STATS2 => answer.read_statistics(value),
                _ => {}
            }
        }
        let kind = std::str::from_utf8(answer.kind_bytes()).unwrap_or_default();
        answer.shaping = Shaping::read(kind, options);
        Some(answer)
    }

    fn read_statistics(&mut self, attribute: &[u8]) {
        for (kind, value) in attributes(attribute) {
            let word = |place: usize| u32_at(value, 4 * place).unwrap_or(0);
            match kind {
                TCA_STATS_BASIC => {
                    self.bytes = u64_at(value, 0).unwrap_or(0);
                    self.packets = u64::from(word(2));
                }
                TCA_STATS_QUEUE => {
                    (self.qlen, self.backlog) = (word(0), word(1));
                    (self.drops, self.requeues, self.overlimits) = (word(2), word(3), word(4));
                }
                // This attribute is present if the number of packets does not fit into 32 bits.
                TCA_STATS_PKT64 => self.packets = u64_at(value, 0).unwrap_or(self.packets),
                _ => {}
            }
        }
    }
}

impl Shaping {
    /// Parses the options of a discipline (`linux/pkt_sched.h`), which depend on its `kind`.
    fn read(kind: &str, options: &[u8]) -> Shaping {
        let number = |value: &[u8]| u32_at(value, 0).unwrap_or(0);
        let mut shaping = Shaping::default();
        match kind {
            "pfifo" | "pfifo_head_drop" => shaping.limit_packets = number(options),
            "bfifo" => shaping.limit_bytes = number(options),
            "tbf" => shaping.read_tbf(options),
            "cake" => {
                let rate = attributes(options).find(|(kind, _)| *kind == TCA_CAKE_BASE_RATE64);
                // The attribute is in bytes per second.
                let rate = rate.and_then(|(_, value)| u64_at(value, 0)).unwrap_or(0);
                shaping.rate_bps = rate.saturating_mul(8);
            }
            "codel" | "fq_codel" | "pie" | "fq" | "fq_pie" => {
                // The number of the attribute with the limit.
                let place = if matches!(kind, "fq" | "fq_pie") { 1 } else { 2 };
                let limit = attributes(options).find(|(kind, _)| *kind == place);
                shaping.limit_packets = limit.map_or(0, |(_, value)| number(value));
            }
            _ => {}
        }
        shaping
    }

    /// Parses the options of `tbf`. The parameters are a `tc_tbf_qopt`: two `tc_ratespec` of 12
    /// bytes (each has a rate in its last four bytes), then the limit in bytes, then the time in
    /// which the rate fills the bucket.
    fn read_tbf(&mut self, options: &[u8]) {
        let (mut bytes_per_second, mut fill_ns, mut has_peak) = (0, 0, false);
        for (kind, value) in attributes(options) {
            match kind {
                TCA_TBF_PARMS => {
                    let word = |at: usize| u32_at(value, at).unwrap_or(0);
                    if bytes_per_second == 0 {
                        bytes_per_second = word(8).into();
                    }
                    has_peak = word(20) != 0;
                    self.limit_bytes = word(24);
                    fill_ns = u64::from(word(28)) * TICK_NS;
                }
                // This attribute is present if the rate does not fit into 32 bits.
                TCA_TBF_RATE64 => bytes_per_second = u64_at(value, 0).unwrap_or(bytes_per_second),
                _ => {}
            }
        }
        if has_peak {
            // Two rates bound the queue, and one number would describe neither.
            return;
        }
        self.rate_bps = bytes_per_second.saturating_mul(8);
        let burst = u128::from(fill_ns) * u128::from(bytes_per_second) / 1_000_000_000;
        self.burst_bytes = u64::try_from(burst).unwrap_or(u64::MAX);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The answer is complete.
    Whole,
    /// Disciplines changed while the kernel answered, or a part of the answer never arrived. The
    /// answer is not a valid reading.
    Interrupted,
    /// A part of the answer did not fit. The buffer has been enlarged; repeat the query.
    Cut,
}

pub(super) struct QuerySocket {
    socket: Socket,
    request: [u8; REQUEST],
    sequence: u32,
    buffer: Vec<u8>,
    /// The buffer size that the kernel sees. The kernel splits an answer into parts of this size.
    room: usize,
}

impl QuerySocket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses the socket.
    pub(super) fn open() -> io::Result<QuerySocket> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        // The kernel answers within the system call that sends the query, so there is no wait.
        socket.set_non_blocking(true)?;
        let mut request = [0; REQUEST];
        request[..4].copy_from_slice(&(REQUEST as u32).to_ne_bytes());
        request[4..6].copy_from_slice(&RTM_GETQDISC.to_ne_bytes());
        // This empty attribute is a flag: with it, a dump includes the disciplines that the kernel
        // itself created. The query for one discipline ignores it.
        request[HEADER + TCMSG..][..2].copy_from_slice(&4u16.to_ne_bytes());
        request[HEADER + TCMSG + 2..].copy_from_slice(&TCA_DUMP_INVISIBLE.to_ne_bytes());
        Ok(QuerySocket {
            socket,
            request,
            sequence: 0,
            buffer: vec![0; ANSWER],
            room: SMALL_ANSWER,
        })
    }

    /// Queries every discipline of the namespace. A kernel that supports `ifindex` in this query
    /// (none does so far) returns only the disciplines of that device; 0 means all devices.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub(super) fn all(&mut self, ifindex: u32, answer: impl FnMut(Answer)) -> io::Result<Outcome> {
        self.query(NLM_F_REQUEST | NLM_F_DUMP, ifindex, 0, answer)
    }

    /// Queries the root of a device. A device without a root (removed or never up) gives no answer.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub(super) fn root(&mut self, ifindex: u32, answer: impl FnMut(Answer)) -> io::Result<Outcome> {
        // The kernel answers with the message by which it announces a change to all listeners. This
        // flag makes it send that message to the sender of the query too.
        self.query(NLM_F_REQUEST | NLM_F_ECHO, ifindex, TC_H_ROOT, answer)
    }

    fn query(
        &mut self,
        flags: u16,
        ifindex: u32,
        parent: u32,
        mut answer: impl FnMut(Answer),
    ) -> io::Result<Outcome> {
        self.sequence = self.sequence.wrapping_add(1);
        self.request[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.request[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        self.request[HEADER + 4..HEADER + 8].copy_from_slice(&ifindex.to_ne_bytes());
        self.request[HEADER + 12..HEADER + 16].copy_from_slice(&parent.to_ne_bytes());
        self.socket.send(&self.request, 0)?;
        let is_dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        let (mut outcome, mut pieces) = (Outcome::Whole, 0);
        loop {
            let length = match self.socket.recv(&mut &mut self.buffer[..self.room], MSG_TRUNC) {
                Ok(length) if length > self.room && self.room < ANSWER => {
                    self.room = (2 * self.room).min(ANSWER);
                    return self.give_up().map(|_| Outcome::Cut);
                }
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // No answer to the query for one discipline means that there is no such root. A
                // dump would have sent an end message.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !is_dump => {
                    return Ok(outcome);
                }
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        || error.raw_os_error() == Some(ENOBUFS) =>
                {
                    return self.give_up();
                }
                Err(error) => return Err(error),
            };
            let mut over = !is_dump;
            for message in messages(&self.buffer[..length.min(self.room)]) {
                if message.sequence != self.sequence {
                    over = false;
                    continue;
                }
                if message.flags & NLM_F_DUMP_INTR != 0 {
                    outcome = Outcome::Interrupted;
                }
                match message.kind {
                    RTM_NEWQDISC => Answer::read(message.body).map_or((), &mut answer),
                    NLMSG_DONE | NLMSG_ERROR => match u32_at(message.body, 0)
                        .map_or(0, |code| (code as i32).wrapping_neg())
                    {
                        code if code <= 0 || code == ENOENT || code == ENODEV => over = true,
                        code => return Err(io::Error::from_raw_os_error(code)),
                    },
                    _ => {}
                }
            }
            pieces += 1;
            if over {
                // The last part only marks the end. With more than one part before it, the next
                // query uses larger parts.
                if pieces > 2 {
                    self.room = (2 * self.room).min(ANSWER);
                }
                return Ok(outcome);
            }
        }
    }

    /// Discards the rest of an answer.
    fn give_up(&mut self) -> io::Result<Outcome> {
        loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Outcome::Interrupted);
                }
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted
                        || error.raw_os_error() == Some(ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A netlink message: fields of its header, and its body.
struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

/// The messages of one datagram. A message that claims more bytes than remain ends the sequence.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER..length)?;
        let message = Message {
            kind: u16_at(bytes, 4)?,
            flags: u16_at(bytes, 6)?,
            sequence: u32_at(bytes, 8)?,
            body,
        };
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes of a message or of a nested attribute: number and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let attribute = (u16_at(bytes, 2)? & NLA_TYPE_MASK, bytes.get(4..length)?);
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(attribute)
    })
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Parses a datagram and returns the number of disciplines in it.
pub(crate) fn count_answers(bytes: &[u8]) -> usize {
    messages(bytes).filter_map(|message| Answer::read(message.body)).count()
}

/// Bytes of a discipline's name, including the terminating zero.
const KIND: usize = 16;
/// Bytes of a message header and of a `tcmsg`.
const HEADER: usize = 16;
const TCMSG: usize = 20;
/// Bytes of a request: both headers and one attribute without a value.
const REQUEST: usize = HEADER + TCMSG + 4;
/// The largest part in which the kernel answers a dump.
const ANSWER: usize = 32 * 1024;
/// The initial size of a part. It is enough for twenty disciplines, and no larger than the buffers
/// that the kernel has preallocated: a larger allocation takes longer than the answer.
const SMALL_ANSWER: usize = 4 * 1024;

const NLM_F_REQUEST: u16 = 0x001;
const NLM_F_ECHO: u16 = 0x008;
const NLM_F_DUMP_INTR: u16 = 0x010;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const NLA_TYPE_MASK: u16 = 0x3fff;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_DUMP_INVISIBLE: u16 = 10;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_CAKE_BASE_RATE64: u16 = 2;
/// Nanoseconds per tick, the unit of time of traffic control.
const TICK_NS: u64 = 64;
/// Makes the kernel report the full length of a datagram that did not fit.
const MSG_TRUNC: i32 = 0x20;
const ENOENT: i32 = 2;
const ENODEV: i32 = 19;
const ENOBUFS: i32 = 105;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        Answer, Outcome, QuerySocket, TCA_KIND, TCA_STATS_BASIC, TCA_STATS_PKT64, TCA_STATS_QUEUE,
        TCA_STATS2, attributes, count_answers,
    };

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn an_answer_is_parsed_with_its_64_bit_counters() {
        let basic = [7_000_000_000u64.to_ne_bytes().to_vec(), words(&[21, 0])].concat();
        let statistics = [
            attribute(TCA_STATS_BASIC, &basic),
            attribute(TCA_STATS_PKT64, &5_000_000_000u64.to_ne_bytes()),
            attribute(TCA_STATS_QUEUE, &words(&[3, 300, 4, 5, 6])),
        ];
        let body = [
            words(&[0, 9, 0x8001_0000, u32::MAX, 2]),
            attribute(TCA_KIND, b"tbf\0"),
            attribute(TCA_STATS2 | 0x8000, &statistics.concat()),
        ];
        let answer = Answer::read(&body.concat()).expect("the answer is complete");
        assert_eq!(
            (answer.ifindex, answer.handle, answer.is_root(), answer.kind().as_str()),
            (9, 0x8001_0000, true, "tbf")
        );
        assert_eq!(
            (answer.qlen, answer.backlog, answer.drops, answer.requeues, answer.overlimits),
            (3, 300, 4, 5, 6)
        );
        assert_eq!((answer.bytes, answer.packets), (7_000_000_000, 5_000_000_000));
    }

    #[test]
    fn device_handle_parent_and_kind_identify_a_queue() {
        let one = Answer {
            ifindex: 1,
            handle: 2,
            parent: 3,
            kind: [b'a'; 16],
            qlen: 4,
            ..Answer::default()
        };
        assert!(one.same_queue(&Answer { qlen: 5, drops: 1, ..one }));
        for other in [
            Answer { ifindex: 9, ..one },
            Answer { handle: 9, ..one },
            Answer { parent: 9, ..one },
            Answer { kind: [b'b'; 16], ..one },
        ] {
            assert!(!one.same_queue(&other), "{other:?}");
        }
    }

    #[test]
    fn a_truncated_answer_is_requested_again_with_a_larger_buffer() {
        let mut socket = QuerySocket::open().expect("opening needs no privilege");
        socket.room = 8;
        let mut asked = 0;
        let mut answers = Vec::new();
        while socket.all(0, |answer| answers.push(answer)).expect("the kernel answers")
            == Outcome::Cut
        {
            answers.clear();
            asked += 1;
        }
        assert!(asked >= 1, "the end of the list alone takes 20 bytes");
        let mut again = 0;
        let outcome = QuerySocket::open()
            .expect("opening needs no privilege")
            .all(0, |_| again += 1)
            .expect("the kernel answers");
        assert_eq!((outcome, answers.len()), (Outcome::Whole, again));
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_terminates_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let answers = count_answers(&bytes);
            prop_assert!(answers <= bytes.len() / 16);
            prop_assert!(attributes(&bytes).count() <= bytes.len() / 4);
        }
    }
}
