//! An enum of all types of schedulers, in which only calls of an added scheduler are virtual. Also
//! the change from one scheduler to another while packets wait.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{AnyScheduler, Fifo, FlowSlot, FlowSpec, Scheduler, Tree};
use crate::packet::{PacketId, PacketList, Store};
use crate::stats::DropReason;
use crate::units::Nanos;

/// Defines the enum of all types of schedulers. The FIFO is stored inline and tested first, because
/// most links have a FIFO and each packet causes several calls. The other schedulers are behind a
/// pointer.
macro_rules! any {
    (Fifo: Fifo, $($kind:ident: $type:ident),+) => {
        /// Any scheduler: of the table, added, behind older packets, or a tree.
        #[derive(Debug)]
        pub(crate) enum AnyScheduler {
            Fifo(Fifo),
            $($kind(alloc::boxed::Box<$type>),)+
            Added(alloc::boxed::Box<AddedScheduler>),
            Behind(alloc::boxed::Box<any::Behind>),
            Tree(alloc::boxed::Box<tree::Tree>),
        }

        impl AnyScheduler {
            pub(crate) fn new(discipline: &Discipline) -> Self {
                match implementation(discipline) {
                    Kind::Fifo => Self::Fifo(Fifo::default()),
                    $(Kind::$kind => Self::$kind(alloc::boxed::Box::new($type::new(discipline))),)+
                    Kind::Added(_) => {
                        Self::Added(alloc::boxed::Box::new(AddedScheduler::new(discipline)))
                    }
                }
            }
        }

        impl Scheduler for AnyScheduler {
            fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
                match self {
                    Self::Fifo(s) => s.add_flow(now, spec),
                    $(Self::$kind(s) => s.add_flow(now, spec),)+
                    Self::Added(s) => s.add_flow(now, spec),
                    Self::Behind(s) => s.add_flow(now, spec),
                    Self::Tree(s) => s.add_flow(now, spec),
                }
            }

            fn change_flow<P: Store>(
                &mut self,
                now: Nanos,
                store: &mut P,
                slot: FlowSlot,
                spec: &FlowSpec,
            ) {
                match self {
                    Self::Fifo(s) => s.change_flow(now, store, slot, spec),
                    $(Self::$kind(s) => s.change_flow(now, store, slot, spec),)+
                    Self::Added(s) => s.change_flow(now, store, slot, spec),
                    Self::Behind(s) => s.change_flow(now, store, slot, spec),
                    Self::Tree(s) => s.change_flow(now, store, slot, spec),
                }
            }

            fn remove_flow<P: Store>(
                &mut self,
                now: Nanos,
                store: &mut P,
                slot: FlowSlot,
                flow: u32,
            ) -> PacketList {
                match self {
                    Self::Fifo(s) => s.remove_flow(now, store, slot, flow),
                    $(Self::$kind(s) => s.remove_flow(now, store, slot, flow),)+
                    Self::Added(s) => s.remove_flow(now, store, slot, flow),
                    Self::Behind(s) => s.remove_flow(now, store, slot, flow),
                    Self::Tree(s) => s.remove_flow(now, store, slot, flow),
                }
            }

            #[inline]
            fn enqueue<P: Store>(
                &mut self,
                now: Nanos,
                store: &mut P,
                slot: FlowSlot,
                packet: PacketId,
            ) -> Option<PacketId> {
                match self {
                    Self::Fifo(s) => s.enqueue(now, store, slot, packet),
                    other => other.enqueue_other(now, store, slot, packet),
                }
            }

            #[inline]
            fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
                match self {
                    Self::Fifo(s) => s.dequeue(now, store),
                    other => other.dequeue_other(now, store),
                }
            }

            fn enqueue_batch<P: Store>(
                &mut self,
                now: Nanos,
                store: &mut P,
                packets: &[(FlowSlot, PacketId)],
                refused: &mut Vec<PacketId>,
            ) {
                match self {
                    Self::Fifo(s) => s.enqueue_batch(now, store, packets, refused),
                    $(Self::$kind(s) => s.enqueue_batch(now, store, packets, refused),)+
                    Self::Added(s) => s.enqueue_batch(now, store, packets, refused),
                    Self::Behind(s) => s.enqueue_batch(now, store, packets, refused),
                    Self::Tree(s) => s.enqueue_batch(now, store, packets, refused),
                }
            }

            #[inline]
            fn pop_refused<P: Store>(&mut self, store: &mut P) -> Option<(PacketId, DropReason)> {
                match self {
                    Self::Fifo(_) => None,
                    other => other.pop_refused_of_other(store),
                }
            }

            #[inline]
            fn next_event(&self) -> Option<Nanos> {
                match self {
                    Self::Fifo(_) => None,
                    other => other.next_event_of_other(),
                }
            }

            #[inline]
            fn may_bypass(&self) -> bool {
                match self {
                    Self::Fifo(s) => s.may_bypass(),
                    other => other.other_may_bypass(),
                }
            }

            fn accepts_all(&self) -> bool {
                match self {
                    Self::Fifo(s) => s.accepts_all(),
                    $(Self::$kind(s) => s.accepts_all(),)+
                    Self::Added(s) => s.accepts_all(),
                    Self::Tree(s) => s.accepts_all(),
                    Self::Behind(s) => s.accepts_all(),
                }
            }

            fn has_room(&self, now: Nanos, slot: FlowSlot, len: u32, label: u64) -> bool {
                match self {
                    Self::Fifo(s) => s.has_room(now, slot, len, label),
                    $(Self::$kind(s) => s.has_room(now, slot, len, label),)+
                    Self::Added(s) => s.has_room(now, slot, len, label),
                    Self::Tree(s) => s.has_room(now, slot, len, label),
                    Self::Behind(s) => s.has_room(now, slot, len, label),
                }
            }

            #[inline]
            fn len(&self) -> usize {
                match self {
                    Self::Fifo(s) => s.len(),
                    other => other.len_of_other(),
                }
            }

            fn backlog(&self) -> u64 {
                match self {
                    Self::Fifo(s) => s.backlog(),
                    $(Self::$kind(s) => s.backlog(),)+
                    Self::Added(s) => s.backlog(),
                    Self::Behind(s) => s.backlog(),
                    Self::Tree(s) => s.backlog(),
                }
            }

            fn variables(&self) -> Vec<(&'static str, u64)> {
                match self {
                    Self::Fifo(s) => s.variables(),
                    $(Self::$kind(s) => s.variables(),)+
                    Self::Added(s) => s.variables(),
                    Self::Behind(s) => s.variables(),
                    Self::Tree(s) => s.variables(),
                }
            }
        }

        // Calls of schedulers other than the FIFO, in separate functions, so that the inlined
        // functions for the FIFO stay small.
        impl AnyScheduler {
            #[inline(never)]
            fn enqueue_other<P: Store>(
                &mut self,
                now: Nanos,
                store: &mut P,
                slot: FlowSlot,
                packet: PacketId,
            ) -> Option<PacketId> {
                match self {
                    Self::Fifo(s) => s.enqueue(now, store, slot, packet),
                    $(Self::$kind(s) => s.enqueue(now, store, slot, packet),)+
                    Self::Added(s) => s.enqueue(now, store, slot, packet),
                    Self::Behind(s) => s.enqueue(now, store, slot, packet),
                    Self::Tree(s) => s.enqueue(now, store, slot, packet),
                }
            }

            #[inline(never)]
            fn dequeue_other<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
                self.come_to_the_front();
                match self {
                    Self::Fifo(s) => s.dequeue(now, store),
                    $(Self::$kind(s) => s.dequeue(now, store),)+
                    Self::Added(s) => s.dequeue(now, store),
                    Self::Behind(s) => s.dequeue(now, store),
                    Self::Tree(s) => s.dequeue(now, store),
                }
            }

            #[inline(never)]
            fn pop_refused_of_other<P: Store>(
                &mut self,
                store: &mut P,
            ) -> Option<(PacketId, DropReason)> {
                match self {
                    Self::Fifo(_) => None,
                    $(Self::$kind(s) => s.pop_refused(store),)+
                    Self::Added(s) => s.pop_refused(store),
                    Self::Behind(s) => s.pop_refused(store),
                    Self::Tree(s) => s.pop_refused(store),
                }
            }

            #[inline(never)]
            fn next_event_of_other(&self) -> Option<Nanos> {
                match self {
                    Self::Fifo(_) => None,
                    $(Self::$kind(s) => s.next_event(),)+
                    Self::Added(s) => s.next_event(),
                    Self::Behind(s) => s.next_event(),
                    Self::Tree(s) => s.next_event(),
                }
            }

            #[inline(never)]
            fn other_may_bypass(&self) -> bool {
                match self {
                    Self::Fifo(s) => s.may_bypass(),
                    $(Self::$kind(s) => s.may_bypass(),)+
                    Self::Added(s) => s.may_bypass(),
                    Self::Behind(s) => s.may_bypass(),
                    Self::Tree(s) => s.may_bypass(),
                }
            }

            #[inline(never)]
            fn len_of_other(&self) -> usize {
                match self {
                    Self::Fifo(s) => s.len(),
                    $(Self::$kind(s) => s.len(),)+
                    Self::Added(s) => s.len(),
                    Self::Behind(s) => s.len(),
                    Self::Tree(s) => s.len(),
                }
            }
        }
    };
}
pub(super) use any;

/// A scheduler, and older packets that leave before all packets of this scheduler.
#[derive(Debug)]
pub(crate) struct Behind {
    first: Fifo,
    then: AnyScheduler,
}

impl AnyScheduler {
    /// Fixes the order of the packets that wait now: they leave in the order in which the scheduler
    /// would have served them, before every later packet. This keeps a flow's packets in order when
    /// the flow gets another slot. A FIFO already has this property.
    pub(crate) fn settle<P: Store>(&mut self, store: &mut P) {
        let settled = match self {
            Self::Fifo(_) => true,
            Self::Behind(b) => b.then.is_empty(),
            _ => self.is_empty(),
        };
        if settled {
            return;
        }
        let mut first = Fifo::default();
        first.take_all(self, store);
        self.go_behind(first);
    }

    /// Takes the packets that wait in `old`, and serves them before the packets of this scheduler,
    /// in the order in which `old` would have served them.
    pub(crate) fn put_behind<P: Store>(&mut self, old: &mut Self, store: &mut P) {
        let mut first = Fifo::default();
        first.take_all(old, store);
        self.go_behind(first);
    }

    /// The tree of schedulers, if this is one.
    pub(crate) fn tree(&mut self) -> Option<&mut Tree> {
        match self {
            Self::Tree(tree) => Some(tree),
            Self::Behind(b) => b.then.tree(),
            _ => None,
        }
    }

    /// Turns the scheduler into a tree with this scheduler as its root. The caller then calls
    /// [`Tree::adopt`] for each flow.
    pub(crate) fn make_tree(&mut self) {
        if let Self::Behind(b) = self {
            return b.then.make_tree();
        }
        let root = core::mem::replace(self, Self::Fifo(Fifo::default()));
        *self = Self::Tree(Box::new(Tree::above(root)));
    }

    /// Lets the packets in `first` leave before all packets of this scheduler.
    fn go_behind(&mut self, first: Fifo) {
        let then = core::mem::replace(self, Self::Fifo(Fifo::default()));
        *self = Self::Behind(Box::new(Behind { first, then }));
    }

    /// Replaces [`Self::Behind`] with the scheduler inside, once the older packets have left.
    #[inline]
    pub(super) fn come_to_the_front(&mut self) {
        if let Self::Behind(b) = self
            && b.first.is_empty()
        {
            let then = core::mem::replace(&mut b.then, Self::Fifo(Fifo::default()));
            *self = then;
        }
    }
}

impl Scheduler for Behind {
    fn add_flow(&mut self, now: Nanos, spec: &FlowSpec) -> FlowSlot {
        self.then.add_flow(now, spec)
    }

    fn change_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        spec: &FlowSpec,
    ) {
        self.then.change_flow(now, store, slot, spec);
    }

    fn remove_flow<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        flow: u32,
    ) -> PacketList {
        let mut removed = self.first.remove_flow(now, store, slot, flow);
        let mut later = self.then.remove_flow(now, store, slot, flow);
        while let Some(packet) = later.pop_front(store) {
            removed.push_back(store, packet);
        }
        removed
    }

    fn enqueue<P: Store>(
        &mut self,
        now: Nanos,
        store: &mut P,
        slot: FlowSlot,
        packet: PacketId,
    ) -> Option<PacketId> {
        self.then.enqueue(now, store, slot, packet)
    }

    fn dequeue<P: Store>(&mut self, now: Nanos, store: &mut P) -> Option<PacketId> {
        self.first.dequeue(now, store).or_else(|| self.then.dequeue(now, store))
    }

    fn pop_refused<P: Store>(&mut self, store: &mut P) -> Option<(PacketId, DropReason)> {
        self.then.pop_refused(store)
    }

    fn next_event(&self) -> Option<Nanos> {
        if self.first.is_empty() { self.then.next_event() } else { None }
    }

    fn accepts_all(&self) -> bool {
        self.then.accepts_all()
    }

    fn has_room(&self, now: Nanos, slot: FlowSlot, len: u32, label: u64) -> bool {
        self.then.has_room(now, slot, len, label)
    }

    fn len(&self) -> usize {
        self.first.len() + self.then.len()
    }

    fn backlog(&self) -> u64 {
        self.first.backlog() + self.then.backlog()
    }

    fn variables(&self) -> Vec<(&'static str, u64)> {
        self.then.variables()
    }
}
