//! Serves the recorded arrivals with a discipline of Weir and a link, in simulated time.

use weir_core::Nanos;
use weir_core::aqm::{Aqm, Maker, Setup};
use weir_core::config::QueueLimit;
use weir_core::gate::Bounds;
use weir_core::packet::{Ecn, Header, PacketId};
use weir_core::rng::{Purpose, Stream};
use weir_core::sched::{Fifo, FlowSpec, Kind, Scheduler, Visitor};
use weir_core::stamped::Released;
use weir_core::stats::{DropCounts, DropReason};
use weir_measure::packets::{Entry, Packet};
use weir_rules::manager::Manager;

use super::account::{Account, Flows, Survey};
use super::file::{MAX_INSIDE, Recording, RecordingError};
use super::results::{Link, MAX_QUEUES, ReplayError, Row};
use crate::managed::{Arriving, Managed, NoAqm, Watch};

/// Replays the recording with one discipline.
pub(super) fn serve(
    recording: &Recording,
    survey: &Survey,
    manager: &Manager,
    link: &Link,
    seed: u64,
) -> Result<Row, ReplayError> {
    let mut run = Run { recording, survey, link, seed, queues: 1, limit: link.limit() };
    let played = match manager {
        Manager::None => run.play(Fifo::default(), std::iter::once((run.flow(0), NoAqm))),
        Manager::Aqm(policy) => policy.make_with(&run),
        Manager::Scheduler(discipline) => {
            let traits = &discipline.row().traits;
            if !traits.work_conserving {
                return Err(ReplayError::Shapes(discipline.row().name));
            }
            let flows = survey.flows.len();
            match (traits.classifies, discipline.kind() == Kind::Fifo) {
                // These disciplines find the flow by its hash and have their own limits.
                (true, _) => run.limit = QueueLimit::Packets(MAX_INSIDE as u32),
                (false, true) => {}
                (false, false) if flows > MAX_QUEUES => {
                    let (name, flows) = (discipline.row().name, flows as u64);
                    return Err(ReplayError::Flows { name, flows });
                }
                (false, false) => run.queues = flows as u32,
            }
            discipline.seeded(seed).visit(&run)
        }
    };
    let log = played?;
    let mut row = log.account.row(manager.to_string(), &survey.flows);
    row.drops = Some(log.drops);
    Ok(row)
}

/// A replay with one discipline.
struct Run<'a> {
    recording: &'a Recording,
    survey: &'a Survey,
    link: &'a Link,
    seed: u64,
    /// The number of queues: one, or one for each flow.
    queues: u32,
    limit: QueueLimit,
}

impl Run<'_> {
    /// Performs all arrivals, and then serves the packets that are still inside.
    fn play<S: Scheduler, A: Aqm>(
        &self,
        scheduler: S,
        flows: impl Iterator<Item = (FlowSpec, A)>,
    ) -> Result<Log<'_>, RecordingError> {
        let mut pass = self.recording.pass()?;
        let changed = || RecordingError::Changed(self.recording.path());
        let mut player = Player {
            queue: Managed::new(scheduler, flows, self.limit, EXPECTED),
            bucket: Bucket::new(self.link, self.survey.longest),
            held: None,
            log: Log {
                flows: &self.survey.flows,
                account: Account::default(),
                drops: DropCounts::default(),
            },
        };
        let mut packets = 0;
        while let Some(entry) = pass.next()? {
            let Entry::Packet(packet) = entry else { continue };
            packets += 1;
            let flow = self.survey.flows.number(packet.flow);
            if packet.bytes > self.survey.longest || flow as usize >= self.survey.flows.len() {
                return Err(changed());
            }
            player.serve_until(packet.time);
            player.arrive(&packet, if self.queues > 1 { flow } else { 0 });
        }
        if packets != self.survey.content.packets {
            return Err(changed());
        }
        player.serve_until(END);
        Ok(player.log)
    }
}

impl<'a> Maker for &'a Run<'a> {
    type Output = Result<Log<'a>, RecordingError>;

    fn with<A: Aqm + std::fmt::Debug>(self, make: impl Fn(&Setup) -> A) -> Self::Output {
        let Bounds { packets: limit_packets, bytes: limit_bytes } = self.limit.into();
        let stream = Stream::new(self.seed, 0, Purpose::Aqm);
        let rate = self.link.rate_bps;
        let aqm = make(&Setup { rate, limit_packets, limit_bytes, stream });
        self.play(Fifo::default(), std::iter::once((self.flow(0), aqm)))
    }
}

impl<'a> Visitor for &'a Run<'a> {
    type Output = Result<Log<'a>, RecordingError>;

    fn visit<S: Scheduler + std::fmt::Debug>(self, scheduler: S) -> Self::Output {
        self.play(scheduler, (0..self.queues).map(|flow| (self.flow(flow), NoAqm)))
    }
}

impl Run<'_> {
    fn flow(&self, flow: u32) -> FlowSpec {
        FlowSpec { flow, max_packet: self.survey.longest, ..FlowSpec::default() }
    }
}

/// The queue and the link.
struct Player<'a, S, A> {
    queue: Managed<S, A>,
    bucket: Bucket,
    /// The packet that waits for its tokens, and the time of its departure.
    held: Option<(Released, u64)>,
    log: Log<'a>,
}

impl<S: Scheduler, A: Aqm> Player<'_, S, A> {
    fn arrive(&mut self, packet: &Packet, queue: u32) {
        let &Packet { time, flow, bytes, tos, .. } = packet;
        let ecn = match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        };
        let header = Header { ecn, dscp: tos >> 2, hash: flow };
        let arriving = Arriving { queue, len: bytes, header };
        self.log.account.arrive(time);
        if let Err(reason) = self.queue.offer(Nanos(time), &arriving, &mut self.log) {
            self.log.drop(time, reason);
        }
        if self.held.is_none() {
            self.take(time);
        }
    }

    /// Performs the departures before a time.
    fn serve_until(&mut self, end: u64) {
        while let Some((packet, at)) = self.held.take_if(|(_, at)| *at < end) {
            self.queue.let_go(&packet);
            self.log.departed(at, &packet);
            self.take(at);
        }
    }

    /// Takes the next packet from the queue, if there is one.
    fn take(&mut self, now: u64) {
        if let Some((_, packet)) = self.queue.take(Nanos(now), &mut self.log) {
            self.queue.hold(&packet);
            let at = self.bucket.ready(now, packet.len);
            self.held = Some((packet, at));
        }
    }
}

/// A token bucket. Tokens are counted in bits times 10^9, so that their number is exact.
struct Bucket {
    rate: u128,
    size: u128,
    tokens: u128,
    /// The time for which `tokens` is valid, ns.
    at: u64,
}

impl Bucket {
    /// A full bucket.
    fn new(link: &Link, longest: u32) -> Self {
        let size = u128::from(link.burst_bytes.max(longest.into())) * PER_BYTE;
        Self { rate: link.rate_bps.max(1).into(), size, tokens: size, at: 0 }
    }

    /// Takes tokens for a packet. Returns the time at which the bucket holds these tokens.
    fn ready(&mut self, now: u64, len: u32) -> u64 {
        let passed = u128::from(now.saturating_sub(self.at));
        self.tokens = self.size.min(self.tokens + passed * self.rate);
        let need = u128::from(len) * PER_BYTE;
        let wait = need.saturating_sub(self.tokens).div_ceil(self.rate);
        self.tokens = self.tokens + wait * self.rate - need;
        self.at = now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX));
        self.at
    }
}

/// The metrics of the replay, and drops by reason.
struct Log<'a> {
    flows: &'a Flows,
    account: Account,
    drops: DropCounts,
}

impl Log<'_> {
    fn departed(&mut self, at: u64, packet: &Released) {
        let flow = (self.flows.number(packet.header.hash), packet.len);
        let marked = packet.mark.is_some() && packet.header.ecn != Ecn::Ce;
        self.account.depart(at, at - packet.arrived.0, flow, marked);
    }

    fn drop(&mut self, at: u64, reason: DropReason) {
        self.account.drop(at);
        self.drops.add(reason, 1);
    }
}

impl Watch for Log<'_> {
    fn dropped(&mut self, now: Nanos, _id: PacketId, _packet: &Released, reason: DropReason) {
        self.drop(now.0, reason);
    }
}

/// Tokens of a byte.
const PER_BYTE: u128 = 8 * 1_000_000_000;
/// The number of packets to allocate memory for.
const EXPECTED: usize = 1024;
/// The end of simulated time, ns. Packets that are still inside at this time count as left.
const END: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_sends_its_burst_at_once_and_then_at_its_rate() {
        let link = Link::new(8_000_000, 3000, QueueLimit::Packets(10));
        let mut bucket = Bucket::new(&link, 1000);
        // A byte takes a microsecond.
        let times: Vec<u64> = (0..5).map(|_| bucket.ready(0, 1000)).collect();
        assert_eq!(times, [0, 0, 0, 1_000_000, 1_000_000]);
        assert_eq!(bucket.ready(1_000_000, 1000), 2_000_000);
        // After an idle time the bucket is full again, and no more than full.
        let late: Vec<u64> = (0..4).map(|_| bucket.ready(1_000_000_000, 1000)).collect();
        assert_eq!(late, [1_000_000_000, 1_000_000_000, 1_000_000_000, 1_001_000_000]);
    }
}
