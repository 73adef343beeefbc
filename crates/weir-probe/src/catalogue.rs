//! Which queues are there: numbers for those that come, word for those that go, the same for every
//! method.

use std::collections::BTreeMap;

use crate::model::{Handle, Queue, QueueId, Sink};

/// What tells one queue from another. Two that agree in all of it are the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    /// Number of its device.
    pub(crate) ifindex: u32,
    pub(crate) handle: u32,
    pub(crate) parent: u32,
    pub(crate) kind: String,
    pub(crate) band: Option<u8>,
    pub(crate) root: bool,
    /// Where the kernel keeps it; 0 where that is not known.
    pub(crate) address: u64,
}

/// Numbers across all catalogues of a recording.
#[derive(Debug, Default)]
pub(crate) struct Numbers(QueueId);

/// The queues of one namespace, in the order in which the method sees them.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    seen: Vec<Seen>,
    ids: Vec<QueueId>,
}

impl Catalogue {
    /// Takes in what is there now and tells the sink what came and what went. `names` gives a
    /// device's name by its number.
    pub(crate) fn observe(
        &mut self,
        time: u64,
        seen: Vec<Seen>,
        numbers: &mut Numbers,
        (netns, names): (Option<&str>, &BTreeMap<u32, String>),
        sink: &mut dyn Sink,
    ) {
        if seen == self.seen {
            return;
        }
        let mut before: BTreeMap<Seen, QueueId> =
            std::mem::take(&mut self.seen).into_iter().zip(self.ids.drain(..)).collect();
        let known: Vec<Option<QueueId>> = seen.iter().map(|queue| before.remove(queue)).collect();
        for id in before.into_values() {
            sink.vanished(time, id);
        }
        for (queue, known) in seen.iter().zip(known) {
            self.ids.push(
                known.unwrap_or_else(|| introduce(time, queue, numbers, (netns, names), sink)),
            );
        }
        self.seen = seen;
    }

    /// Number of a queue, which is new if it is not there yet: one that was seen between two looks.
    #[cfg(any(feature = "bpf", test))]
    pub(crate) fn adopt(
        &mut self,
        time: u64,
        queue: Seen,
        numbers: &mut Numbers,
        place: (Option<&str>, &BTreeMap<u32, String>),
        sink: &mut dyn Sink,
    ) -> QueueId {
        if let Some(at) = self.seen.iter().position(|seen| *seen == queue) {
            return self.ids[at];
        }
        let id = introduce(time, &queue, numbers, place, sink);
        self.seen.push(queue);
        self.ids.push(id);
        id
    }

    /// A queue is gone, if it was there: another one that looks the same will be new.
    #[cfg(any(feature = "bpf", test))]
    pub(crate) fn release(&mut self, time: u64, queue: &Seen, sink: &mut dyn Sink) {
        if let Some(at) = self.seen.iter().position(|seen| seen == queue) {
            self.seen.remove(at);
            sink.vanished(time, self.ids.remove(at));
        }
    }

    /// The queues that are there now.
    #[cfg(feature = "bpf")]
    pub(crate) fn ids(&self) -> &[QueueId] {
        &self.ids
    }

    /// Number of the queue at this place of what was last observed.
    pub(crate) fn id(&self, place: usize) -> Option<QueueId> {
        self.ids.get(place).copied()
    }
}

/// A new queue gets its number.
fn introduce(
    time: u64,
    queue: &Seen,
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

    use super::{Catalogue, Numbers, Seen};
    use crate::model::{Counters, Queue, QueueId, Run, Sink};

    #[derive(Default)]
    struct Words(Vec<String>);

    impl Sink for Words {
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

    fn seen(handle: u32, address: u64) -> Seen {
        Seen {
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
    fn what_stays_keeps_its_number_and_what_comes_back_gets_a_new_one() {
        let (mut catalogue, mut numbers, mut words) =
            (Catalogue::default(), Numbers::default(), Words::default());
        let names = BTreeMap::from([(3, "eth0".to_owned())]);
        for now in [
            vec![seen(1, 7), seen(2, 8)],
            vec![seen(2, 8)],
            vec![seen(2, 8)],
            vec![seen(1, 7), seen(2, 9)],
            vec![],
        ] {
            catalogue.observe(0, now, &mut numbers, (None, &names), &mut words);
        }
        assert_eq!(
            words.0,
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
    fn what_is_released_comes_back_as_another_even_if_it_looks_the_same() {
        let (mut catalogue, mut numbers, mut words) =
            (Catalogue::default(), Numbers::default(), Words::default());
        let names = BTreeMap::from([(3, "eth0".to_owned())]);
        for _ in 0..2 {
            let id = catalogue.adopt(0, seen(1, 7), &mut numbers, (None, &names), &mut words);
            assert_eq!(
                catalogue.adopt(0, seen(1, 7), &mut numbers, (None, &names), &mut words),
                id,
                "it is there"
            );
            catalogue.observe(0, vec![seen(1, 7)], &mut numbers, (None, &names), &mut words);
            catalogue.release(0, &seen(1, 7), &mut words);
            catalogue.release(0, &seen(1, 7), &mut words);
        }
        assert_eq!(words.0, ["+0 eth0 tbf 1:", "-0", "+1 eth0 tbf 1:", "-1"]);
    }
}
