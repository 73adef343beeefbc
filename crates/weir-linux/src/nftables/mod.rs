//! nftables through the kernel's netlink socket: tables, chains and rules are created together, or
//! not at all.
//!
//! Starting the program `nft` for each change would lengthen a session's start by some fifteen
//! milliseconds. A table may be owned by the socket that created it. The kernel removes such a
//! table when the socket closes, at the latest when this process ends.

mod message;
mod rule;

use std::io;

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};

use message::{Answer, Attributes, Head, Messages, answers, attributes, number, refusal, text};
pub(crate) use rule::{Rule, TCP, UDP};

/// The packets that a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Family {
    /// IPv4 and IPv6.
    Inet = 1,
    /// Frames of single interfaces.
    Netdev = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Filter,
    Nat,
}

/// The place of a chain in a packet's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook<'a> {
    Prerouting,
    Forward,
    Postrouting,
    /// The arrival on an interface, for [`Family::Netdev`].
    Ingress(&'a str),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    pub(crate) name: &'a str,
    pub(crate) purpose: Purpose,
    pub(crate) hook: Hook<'a>,
    pub(crate) priority: i32,
}

/// A table with its chains and rules, to be created as a whole.
#[derive(Debug)]
pub(crate) struct Table {
    family: Family,
    name: String,
    messages: Messages,
}

impl Table {
    /// An empty table. If `owned`, the socket that creates the table owns it.
    pub(crate) fn new(family: Family, name: &str, owned: bool) -> Self {
        let mut messages = Messages::default();
        messages.add(batch(BATCH_BEGIN), &Attributes::default());
        let mut table = Self { family, name: name.to_owned(), messages };
        let mut attributes = Attributes::default();
        attributes.text(TABLE_NAME, name);
        attributes.number(TABLE_FLAGS, if owned { OWNER } else { 0 });
        table.add(NEW_TABLE, 0, &attributes);
        table
    }

    /// Adds a chain with its rules.
    pub(crate) fn chain(&mut self, chain: Chain<'_>, rules: impl IntoIterator<Item = Rule>) {
        let (hook, device) = match chain.hook {
            Hook::Prerouting => (PREROUTING, None),
            Hook::Forward => (FORWARD, None),
            Hook::Postrouting => (POSTROUTING, None),
            Hook::Ingress(device) => (INGRESS, Some(device)),
        };
        let purpose = match chain.purpose {
            Purpose::Filter => "filter",
            Purpose::Nat => "nat",
        };
        let mut attributes = Attributes::default();
        attributes
            .text(CHAIN_TABLE, &self.name)
            .text(CHAIN_NAME, chain.name)
            .nest(CHAIN_HOOK, |list| {
                list.number(HOOK_NUMBER, hook);
                list.number(HOOK_PRIORITY, chain.priority.cast_unsigned());
                if let Some(device) = device {
                    list.text(HOOK_DEVICE, device);
                }
            })
            .text(CHAIN_TYPE, purpose);
        self.add(NEW_CHAIN, 0, &attributes);
        for Rule(expressions) in rules {
            let mut attributes = Attributes::default();
            attributes
                .text(RULE_TABLE, &self.name)
                .text(RULE_CHAIN, chain.name)
                .nest(RULE_EXPRESSIONS, |list| *list = expressions);
            self.add(NEW_RULE, APPEND, &attributes);
        }
    }

    fn add(&mut self, kind: u16, flags: u16, attributes: &Attributes) {
        let head = Head {
            kind: SUBSYSTEM | kind,
            flags: flags | CREATE | ACKNOWLEDGE,
            family: self.family as u8,
            resource: 0,
        };
        self.messages.add(head, attributes);
    }
}

/// A chain of the kernel with the policy to drop what no rule accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DroppingChain {
    pub(crate) family: &'static str,
    pub(crate) table: String,
    pub(crate) name: String,
    /// Whether the chain filters forwarded packets; otherwise it filters packets to the machine.
    pub(crate) forwards: bool,
}

/// A connection to nftables in the network namespace in which it was opened.
pub(crate) struct Nftables {
    socket: Socket,
}

impl Nftables {
    /// Opens a connection in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel has no nftables.
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket })
    }

    /// Creates a table with all its chains and rules.
    ///
    /// # Errors
    /// The kernel's error. After an error, nothing was created.
    pub(crate) fn create(&mut self, mut table: Table) -> io::Result<()> {
        let last = table.messages.last();
        table.messages.add(batch(BATCH_END), &Attributes::default());
        self.socket.send(table.messages.bytes(), 0)?;
        // The kernel acknowledges or refuses each message between the first and the last one. It
        // may also refuse the whole batch, in an answer to the first message.
        self.receive(|sequence, _| sequence >= last)
    }

    /// The chains of all tables that drop packets unless a rule accepts them, for packets that are
    /// forwarded or that reach the machine.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn dropping_chains(&mut self) -> io::Result<Vec<DroppingChain>> {
        let mut request = Messages::default();
        let head = Head { kind: SUBSYSTEM | GET_CHAIN, flags: DUMP, ..Head::default() };
        request.add(head, &Attributes::default());
        self.socket.send(request.bytes(), 0)?;
        let mut chains = Vec::new();
        self.receive(|_, answer| {
            match answer {
                Answer::Object { kind, family, attributes } if kind == SUBSYSTEM | NEW_CHAIN => {
                    chains.extend(dropping_chain(family, attributes));
                }
                Answer::Done => return true,
                _ => {}
            }
            false
        })?;
        Ok(chains)
    }

    /// Receives answers and passes each to `is_last`, with its sequence number, until `is_last`
    /// returns true. If the kernel refuses a request, the result is that error.
    fn receive(&mut self, mut is_last: impl FnMut(u32, Answer<'_>) -> bool) -> io::Result<()> {
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            refusal(&datagram)?;
            if answers(&datagram).any(|(sequence, answer)| is_last(sequence, answer)) {
                return Ok(());
            }
        }
    }
}

impl std::fmt::Debug for Nftables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nftables").finish_non_exhaustive()
    }
}

/// Reads a datagram as the kernel's answers, for fuzzing. Returns the number of answers.
pub(crate) fn read_answers(datagram: &[u8]) -> usize {
    // A refusal is an answer, too.
    let _ = refusal(datagram);
    let mut count = 0;
    for (_, answer) in answers(datagram) {
        count += 1;
        if let Answer::Object { family, attributes, .. } = answer {
            drop(dropping_chain(family, attributes));
        }
    }
    count
}

/// Reads a chain. `None` unless its policy drops forwarded packets or packets to the machine.
fn dropping_chain(family: u8, list: &[u8]) -> Option<DroppingChain> {
    let (_, family, input, forward) =
        FAMILIES.into_iter().find(|(number, ..)| *number == family)?;
    let (mut table, mut name, mut hook, mut policy) = (String::new(), String::new(), None, None);
    for (kind, value) in attributes(list) {
        match kind {
            CHAIN_TABLE => table = text(value),
            CHAIN_NAME => name = text(value),
            CHAIN_POLICY => policy = number(value),
            CHAIN_HOOK => {
                hook = attributes(value)
                    .find(|(kind, _)| *kind == HOOK_NUMBER)
                    .and_then(|(_, value)| number(value));
            }
            _ => {}
        }
    }
    let forwards = hook == Some(forward);
    let relevant = policy == Some(DROPS) && (forwards || hook == Some(input));
    relevant.then_some(DroppingChain { family, table, name, forwards })
}

fn batch(kind: u16) -> Head {
    Head { kind, resource: SUBSYSTEM >> 8, ..Head::default() }
}

/// The families with chains that may drop a session's packets: number, name, and the numbers of
/// their hooks for packets to the machine and for forwarded packets.
const FAMILIES: [(u8, &str, u32, u32); 5] = [
    (1, "inet", INPUT, FORWARD),
    (2, "ip", INPUT, FORWARD),
    (3, "arp", 0, 2),
    (7, "bridge", INPUT, FORWARD),
    (10, "ip6", INPUT, FORWARD),
];

// Numbers of `linux/netfilter.h`, `linux/netfilter/nfnetlink.h` and
// `linux/netfilter/nf_tables.h`.
const PREROUTING: u32 = 0;
const INPUT: u32 = 1;
const FORWARD: u32 = 2;
const POSTROUTING: u32 = 4;
const INGRESS: u32 = 0;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
/// `NFNL_SUBSYS_NFTABLES`, in the upper half of a message's type.
const SUBSYSTEM: u16 = 10 << 8;
const NEW_TABLE: u16 = 0;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const NEW_RULE: u16 = 6;
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const OWNER: u32 = 2;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
const HOOK_DEVICE: u16 = 3;
const RULE_TABLE: u16 = 1;
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
/// The policy `NF_DROP`.
const DROPS: u32 = 0;
// Flags of `linux/netlink.h`.
const ACKNOWLEDGE: u16 = 0x4;
const DUMP: u16 = 0x300;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// The usual priorities of chains, by their names in nft's language.
pub(crate) mod priority {
    pub(crate) const RAW: i32 = -300;
    pub(crate) const DSTNAT: i32 = -100;
    pub(crate) const FILTER: i32 = 0;
    pub(crate) const SRCNAT: i32 = 100;
}
