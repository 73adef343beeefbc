//! The sending end of a connection: which data may be sent, and when.
//!
//! # Parts
//! `ack` processes acknowledgements and finds losses. `recovery` is the state machine of
//! reductions, repairs and their undoing. `transmit` sends. `timers` handles the retransmission
//! timeout, the tail loss probe and the other timers.
//!
//! # Timers
//! Timers are stored in the sender and not in the agenda. Each acknowledgement moves the
//! retransmission timeout, and a new event in the world's agenda each time would cost more than all
//! other work. `wake_at` is never later than any timer that has an effect, and usually earlier. An
//! early wake-up only computes the next one.
//!
//! # States
//! ```text
//!            marks                      losses
//!   Open ─────────────▶ Reducing ───────────────▶ Repairing
//!    │  ▲                  │ acknowledged           │  acknowledged,
//!    │  └──────────────────┴────────────────────────┘  or no loss was real
//!    ├── losses ──▶ Repairing
//!    └── timeout, from any state ──▶ Lost ── as Repairing ──▶ Open
//! ```
//!
//! *Acknowledged*: the receiver has acknowledged all data that was sent before the state began.

mod ack;
mod deadlines;
mod recovery;
mod timers;
mod transmit;
mod undo;
mod usage;

use weir_core::Nanos;
use weir_core::packet::Ecn;
use weir_core::rng::{Purpose, Stream};

use super::cc::{AnyControl, Control, Feedback, Path, Setup};
use super::config::{Config, Data};
use super::prr::Prr;
use super::rack::Rack;
use super::rate::Rate;
use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use crate::endpoint::{Context, Endpoint, Notice};
use crate::packet::{Flags, FlowId, Packet};
use deadlines::Deadlines;
use undo::{Probe, Undo};
use usage::Usage;

/// The sending end of a connection.
#[derive(Debug)]
pub struct Sender {
    flow: FlowId,
    config: Config,
    control: AnyControl,
    phase: Phase,
    state: State,
    pub(super) board: Scoreboard,
    rtt: Rtt,
    rate: Rate,
    rack: Rack,
    prr: Prr,
    /// The reduction or repair ends when this byte is acknowledged.
    high: u64,
    /// Whether the congestion control determines the window during this reduction.
    owned: bool,
    /// End of the data to send.
    written: u64,
    /// Whether the application has closed the connection for writing.
    closed: bool,
    /// Whether the connection was stopped before all data was sent.
    cut: bool,
    /// Right edge of the receiver's window.
    edge: u64,
    deadlines: Deadlines,
    probe: Option<Probe>,
    undo: Undo,
    usage: Usage,
    marks: Marks,
    /// Bytes in the queue and device of the sending host, if these are limited.
    in_host: u64,
    began: Nanos,
    last_sent: Nanos,
    /// When pacing permits the next packet.
    pace_at: Nanos,
    /// Number of SYNs sent.
    syns: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Connecting,
    Established,
    Done,
}

/// The sender's reaction to congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No reaction is in progress.
    Open,
    /// The window is being reduced because of marks.
    Reducing,
    /// Lost segments are being retransmitted.
    Repairing,
    /// The retransmission timer has expired.
    Lost,
}

/// State of ECN at the sender.
#[derive(Debug)]
struct Marks {
    /// How the receiver reports marks; `None` without ECN.
    feedback: Option<Feedback>,
    codepoint: Ecn,
    /// Whether the next new segment reports the reduction of the window (CWR).
    confirm: bool,
    /// Number of marked bytes that the receiver has reported.
    seen: u64,
}

impl Sender {
    /// Makes the sending end of `flow`.
    pub fn new(flow: FlowId, config: &Config) -> Self {
        let mss = config.mss;
        let setup = Setup {
            mss,
            initial_window: u64::from(mss) * u64::from(config.initial_window.max(1)),
            stream: Stream::new(config.seed, flow.0.into(), Purpose::Generator),
        };
        let feedback = config.uses_ecn().then_some(config.control.kind().row().traits.feedback);
        let codepoint = match feedback {
            None => Ecn::NotEct,
            Some(Feedback::Scalable) => Ecn::Ect1,
            Some(_) => Ecn::Ect0,
        };
        let (written, closed) = match config.data {
            Data::Unlimited => (u64::MAX, false),
            Data::Bytes(bytes) => (bytes, true),
            Data::Written => (0, false),
        };
        Self {
            flow,
            config: *config,
            control: AnyControl::new(&config.control, &setup),
            phase: Phase::Waiting,
            state: State::Open,
            board: Scoreboard::default(),
            rtt: Rtt::new(config.min_rto, config.max_rto),
            rate: Rate::default(),
            rack: Rack::new(config.reordering),
            prr: Prr::default(),
            high: 0,
            owned: false,
            written,
            closed,
            cut: false,
            // The handshake advertises the receive buffer. Without a handshake, the sender assumes
            // the size of this buffer.
            edge: config.receive_buffer.into(),
            deadlines: Deadlines::new(config.start, config.stop),
            probe: None,
            undo: Undo::default(),
            usage: Usage::default(),
            marks: Marks { feedback, codepoint, confirm: false, seen: 0 },
            in_host: 0,
            began: Nanos::ZERO,
            last_sent: Nanos::ZERO,
            pace_at: Nanos::ZERO,
            syns: 0,
        }
    }

    /// The congestion control.
    pub fn control(&self) -> &impl Control {
        &self.control
    }

    /// The sender's reaction to congestion.
    pub fn state(&self) -> State {
        self.state
    }

    #[inline]
    fn path(&self, now: Nanos) -> Path {
        Path {
            now,
            mss: self.config.mss,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min(),
            in_flight: self.board.in_flight(),
            delivered: self.rate.delivered(),
            una: self.board.una(),
            next: self.board.next(),
        }
    }

    fn begin(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.began = now;
        self.deadlines.start = Nanos::MAX;
        if self.config.handshake {
            self.phase = Phase::Connecting;
            self.connect(context);
        } else {
            self.phase = Phase::Established;
            self.transmit(context);
            self.finish(context);
        }
    }

    /// Sends a SYN, or sends it again.
    fn connect(&mut self, context: &mut Context<'_>) {
        let now = context.now();
        self.syns += 1;
        if self.syns > 1 {
            self.rtt.back_off();
        }
        let header = self.config.header;
        let packet = Packet {
            flow: self.flow,
            len: header.into(),
            header,
            stamp: now,
            flags: Flags::SYN,
            label: self.config.label,
            ..Packet::default()
        };
        context.send(packet);
        self.last_sent = now;
        self.deadlines.rto = now.saturating_add(self.rtt.timeout());
        self.deadlines.hurry();
    }

    /// Handles the answer to a SYN.
    fn connected(&mut self, packet: &Packet, context: &mut Context<'_>) {
        let now = context.now();
        self.phase = Phase::Established;
        self.rtt.progress();
        // The timestamp shows which SYN was answered.
        let rtt = now.since(packet.stamp);
        self.rtt.sample(rtt, rtt);
        self.deadlines.rto = Nanos::MAX;
        self.edge = u64::from(packet.window);
        self.deadlines.reschedule();
        self.transmit(context);
        self.finish(context);
    }

    /// Reports completion if all data is acknowledged.
    fn finish(&mut self, context: &mut Context<'_>) {
        if !self.closed || self.phase != Phase::Established || self.board.una() < self.written {
            return;
        }
        self.phase = Phase::Done;
        self.deadlines.clear();
        let took = context.now().since(self.began);
        if self.config.counts && self.config.data != Data::Unlimited && !self.cut {
            let count = context.count(self.flow);
            count.completed += 1;
            count.completion_ns.record(took.0);
        }
        if let Some(owner) = self.config.owner {
            context.tell(owner, self.flow, Notice::Done);
        }
        if self.config.retire {
            context.retire(self.flow);
        }
    }
}

impl Endpoint for Sender {
    fn start(&mut self, context: &mut Context<'_>) {
        if self.config.start <= context.now() {
            self.begin(context);
        }
    }

    #[inline]
    fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        match self.phase {
            Phase::Established => {
                self.acknowledged(packet, context);
            }
            Phase::Connecting if packet.flags.has(Flags::SYN) => self.connected(packet, context),
            Phase::Connecting | Phase::Waiting | Phase::Done => {}
        }
    }

    fn wake(&mut self, context: &mut Context<'_>) {
        self.on_time(context);
    }

    #[inline]
    fn next_event(&self) -> Nanos {
        self.deadlines.wake_at
    }

    fn left_host(&mut self, packet: &Packet, context: &mut Context<'_>) {
        self.in_host = self.in_host.saturating_sub(packet.len.into());
        if self.phase == Phase::Established && self.usage.host_full {
            self.transmit(context);
        }
    }

    fn notice(&mut self, _from: FlowId, notice: Notice, context: &mut Context<'_>) {
        match notice {
            Notice::Write(bytes) if !self.closed => {
                self.written = self.written.saturating_add(bytes);
            }
            Notice::Close => {
                self.closed = true;
                self.written = if self.config.data == Data::Unlimited {
                    self.board.next()
                } else {
                    self.written
                };
            }
            _ => return,
        }
        if self.phase == Phase::Established {
            self.transmit(context);
            self.finish(context);
        }
    }
}
