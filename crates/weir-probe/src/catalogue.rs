//! The catalogue of existing queues. It assigns numbers to new queues and reports vanished ones.
//! All methods of reading use it, so a queue is identified by the same rules everywhere.

use std::collections::BTreeMap;

use weir_measure::watch::{Handle, Queue, QueueId, Sink};

/// A queue as the kernel reports it. Two reports that agree in all fields describe the same queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) ifindex: u32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    /// The number of a band of a `pfifo_fast`; `None` for a discipline.
    pub(crate) band: Option<u8>,
    pub(crate) root: bool,
    /// The queue's address in kernel memory; 0 if the method of reading does not know it.
    pub(crate) address: u64,
}

/// The next free queue number, shared by all catalogues of a source.
#[derive(Debug, Default)]
pub(crate) struct Numbers(QueueId);

/// The queues of one namespace, in the order in which they were last reported.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    seen: Vec<Identity>,
    /// The number of each queue in `seen`.
    ids: Vec<QueueId>,
}

impl Catalogue {
    /// Replaces the catalogue with the queues `seen` at `time`, and tells the sink which queues
    /// appeared and which vanished. `names` maps the index of a device to its name.
    pub(crate) fn observe(
        &mut self,
        time: u64,
        seen: Vec<Identity>,
        numbers: &mut Numbers,
        (netns, names): (Option<&str>, &BTreeMap<u32, String>),
        sink: &mut dyn Sink,
    ) {
        if seen == self.seen {
            return;
        }
        let mut previous: BTreeMap<Identity, QueueId> =
            std::mem::take(&mut self.seen).into_iter().zip(self.ids.drain(..)).collect();
        let known: Vec<Option<QueueId>> = seen.iter().map(|queue| previous.remove(queue)).collect();
        for id in previous.into_values() {
            sink.vanished(time, id);
        }
        for (queue, known) in seen.iter().zip(known) {
            self.ids.push(
                known.unwrap_or_else(|| introduce(time, queue, numbers, (netns, names), sink)),
            );
        }
        self.seen = seen;
    }

    /// The number of a queue. A queue that is not in the catalogue yet is added under a new number.
    #[cfg(any(feature = "bpf", test))]
    pub(crate) fn adopt(
        &mut self,
        time: u64,
        queue: Identity,
        numbers: &mut Numbers,
        (netns, names): (Option<&str>, &BTreeMap<u32, String>),
        sink: &mut dyn Sink,
    ) -> QueueId {
        if let Some(at) = self.seen.iter().position(|seen| *seen == queue) {
            return self.ids[at];
        }
        let id = introduce(time, &queue, numbers, (netns, names), sink);
        self.seen.push(queue);
        self.ids.push(id);
        id
    }

    /// Removes a queue, if it is in the catalogue. A later queue with the same fields gets a new
    /// number.
    #[cfg(any(feature = "bpf", test))]
    pub(crate) fn release(&mut self, time: u64, queue: &Identity, sink: &mut dyn Sink) {
        if let Some(at) = self.seen.iter().position(|seen| seen == queue) {
            self.seen.remove(at);
            sink.vanished(time, self.ids.remove(at));
        }
    }

    #[cfg(feature = "bpf")]
    pub(crate) fn ids(&self) -> &[QueueId] {
        &self.ids
    }

    /// The number of the queue at this index of the list that was last observed.
    pub(crate) fn id(&self, index: usize) -> Option<QueueId> {
        self.ids.get(index).copied()
    }
}

/// Assigns a number to a new queue and tells the sink about it.
fn introduce(
    time: u64,
    queue: &Identity,
    numbers: &mut Numbers,
    (netns, names): (Option<&str>, &BTreeMap<u32, String>),
    sink: &mut dyn Sink,
) -> QueueId {
    let id = numbers.0;
    numbers.0 += 1;
    let device =
        names.get(&queue.ifindex).cloned().unwrap_or_else(|| format!("device {}", queue.ifindex));
    let netns = netns.map(str::to_owned);
    let (handle, parent, kind) = (Handle(queue.handle), Handle(queue.parent), queue.kind.clone());
    sink.appeared(
        time,
        id,
        &Queue { device, netns, kind, handle, parent, band: queue.band, root: queue.root },
    );
    id
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Catalogue, Identity, Numbers};
    use weir_measure::watch::{Counters, Queue, QueueId, Run, Sink};

    #[derive(Default)]
    struct Log(Vec<String>);

    impl Sink for Log {
        fn appeared(&mut self, _: u64, id: QueueId, queue: &Queue) {
            self.0.push(format!("+{id} {}", queue.label()));
        }
        fn vanished(&mut self, _: u64, id: QueueId) {
            self.0.push(format!("-{id}"));
        }
        fn runs(&mut self, _: &[Run]) {}
        fn counters(&mut self, _: u64, _: QueueId, _: &Counters) {}
        fn remark(&mut self, _: u64, _: &str) {}
    }

    fn seen(handle: u32, address: u64) -> Identity {
        Identity {
            ifindex: 3,
            handle: handle << 16,
            parent: u32::MAX,
            kind: "tbf".into(),
            band: None,
            root: true,
            address,
        }
    }

    #[test]
    fn a_queue_keeps_its_number_until_it_vanishes() {
        let (mut catalogue, mut numbers, mut log) =
            (Catalogue::default(), Numbers::default(), Log::default());
        let names = BTreeMap::from([(3, "eth0".to_owned())]);
        for now in [
            vec![seen(1, 7), seen(2, 8)],
            vec![seen(2, 8)],
            vec![seen(2, 8)],
            vec![seen(1, 7), seen(2, 9)],
            vec![],
        ] {
            catalogue.observe(0, now, &mut numbers, (None, &names), &mut log);
        }
        assert_eq!(
            log.0,
            [
                "+0 eth0 tbf 1:",
                "+1 eth0 tbf 2:",
                "-0",
                "-1",
                "+2 eth0 tbf 1:",
                "+3 eth0 tbf 2:",
                "-2",
                "-3"
            ]
        );
        assert_eq!(catalogue.id(0), None);
    }

    #[test]
    fn a_released_queue_reappears_under_a_new_number() {
        let (mut catalogue, mut numbers, mut log) =
            (Catalogue::default(), Numbers::default(), Log::default());
        let names = BTreeMap::from([(3, "eth0".to_owned())]);
        for _ in 0..2 {
            let id = catalogue.adopt(0, seen(1, 7), &mut numbers, (None, &names), &mut log);
            assert_eq!(
                catalogue.adopt(0, seen(1, 7), &mut numbers, (None, &names), &mut log),
                id,
                "a queue in the catalogue keeps its number"
            );
            catalogue.observe(0, vec![seen(1, 7)], &mut numbers, (None, &names), &mut log);
            catalogue.release(0, &seen(1, 7), &mut log);
            catalogue.release(0, &seen(1, 7), &mut log);
        }
        assert_eq!(log.0, ["+0 eth0 tbf 1:", "-0", "+1 eth0 tbf 1:", "-1"]);
    }
}
