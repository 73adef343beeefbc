//! The state of the bridges' interfaces, as the daemon knows it without asking the loop.

use weir_control::api::BridgeView;
use weir_linux::live::LiveEvent;
use weir_linux::port::Fault;

pub(super) struct Interfaces(Vec<Interface>);

#[derive(Clone, Debug, Default)]
struct Interface {
    /// Whether the interface is open; false from its disappearance until it is opened again.
    attached: bool,
    /// Whether the interface is switched on and has a carrier.
    running: bool,
    /// The error after which the interface's port is no longer used.
    failed: Option<String>,
    vanished: u64,
    /// How often the interface went down while it existed.
    went_down: u64,
}

impl Interfaces {
    /// The interfaces, one for each item of `attached`, which says whether the interface exists. An
    /// interface that exists counts as running until a call of [`Self::set_running`].
    pub(super) fn new(attached: Vec<bool>) -> Self {
        let interface =
            |attached| Interface { attached, running: attached, ..Interface::default() };
        Self(attached.into_iter().map(interface).collect())
    }

    /// Records an event. Returns a line for the log; `None` if another worker has already reported
    /// the event, or if [`Self::set_running`] records it.
    pub(super) fn note(&mut self, event: &LiveEvent) -> Option<String> {
        let interface = self.0.get_mut(event.port)?;
        let name = &event.interface;
        match event.fault {
            Fault::Down => None,
            Fault::Vanished => {
                let is_news = std::mem::replace(&mut interface.attached, false);
                interface.running = false;
                interface.vanished += u64::from(is_news);
                is_news.then(|| {
                    format!("interface {name} is gone; it is opened again when it is back")
                })
            }
            Fault::System(errno) => {
                let is_news = interface.failed.is_none();
                interface.failed = Some(errno.to_string());
                is_news.then(|| format!("interface {name} has failed: {}; {REPAIR}", event.fault))
            }
        }
    }

    /// Indices of the interfaces that are not open.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.0.len()).filter(|&index| !self.0[index].attached).collect()
    }

    /// Records that an interface is open again.
    pub(super) fn attached(&mut self, index: usize) {
        self.0[index].attached = true;
        self.0[index].failed = None;
    }

    /// Records which interfaces run. Returns a line for the log for each change.
    pub(super) fn set_running(&mut self, running: &[bool], names: &[String]) -> Vec<String> {
        let mut news = Vec::new();
        for ((interface, &running), name) in self.0.iter_mut().zip(running).zip(names) {
            if !interface.attached || interface.running == running {
                continue;
            }
            interface.running = running;
            interface.went_down += u64::from(!running);
            news.push(if running {
                format!("interface {name} is up")
            } else {
                format!("interface {name} is down, or has no carrier")
            });
        }
        news
    }

    pub(super) fn notices(&self, names: &[String]) -> Vec<String> {
        let notice = |(interface, name): (&Interface, &String)| match interface {
            Interface { attached: false, .. } => {
                Some(format!("interface {name} is missing; it is opened when it appears"))
            }
            Interface { failed: Some(error), .. } => {
                Some(format!("interface {name} has failed ({error}); {REPAIR}"))
            }
            Interface { running: false, .. } => {
                Some(format!("interface {name} is down, or has no carrier"))
            }
            _ => None,
        };
        self.0.iter().zip(names).filter_map(notice).collect()
    }

    /// The bridges, without their lanes.
    pub(super) fn views(&self, names: &[String], netns: Option<&str>) -> Vec<BridgeView> {
        let view = |(pair, names): (&[Interface], &[String])| {
            let [left, right] = pair else { return BridgeView::default() };
            BridgeView {
                interfaces: [names[0].clone(), names[1].clone()],
                netns: netns.map(str::to_owned),
                attached: [left.attached, right.attached],
                up: [left.running, right.running],
                failed: [left.failed.clone(), right.failed.clone()],
                vanished: left.vanished + right.vanished,
                went_down: left.went_down + right.went_down,
                lanes: Vec::new(),
            }
        };
        self.0.chunks_exact(2).zip(names.chunks_exact(2)).map(view).collect()
    }
}

/// The remedy for a failed port.
const REPAIR: &str = "restart the daemon, or delete the interface and create it again";

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use weir_core::Nanos;

    use super::*;

    fn event(port: usize, fault: Fault) -> LiveEvent {
        LiveEvent { at: Nanos::ZERO, port, interface: format!("eth{port}"), fault }
    }

    #[test]
    fn a_port_that_failed_is_reported_until_it_is_replaced() {
        let names: Vec<String> = (0..2).map(|n| format!("eth{n}")).collect();
        let mut all = Interfaces::new(vec![true, true]);
        let failed = event(1, Fault::System(Errno::IO));
        assert!(all.note(&failed).is_some_and(|line| line.contains("eth1")));
        assert_eq!(all.note(&failed), None, "every worker reports it");
        let views = all.views(&names, None);
        assert_eq!(views[0].failed[0], None);
        assert!(views[0].failed[1].as_ref().is_some_and(|error| !error.is_empty()));
        assert!(all.notices(&names)[0].contains("eth1 has failed"));
        assert!(all.note(&event(1, Fault::Vanished)).is_some());
        assert_eq!(all.missing(), [1]);
        all.attached(1);
        assert_eq!((all.missing(), &all.views(&names, None)[0].failed), (vec![], &[None, None]));
    }

    #[test]
    fn an_interface_that_goes_down_is_counted_once() {
        let names: Vec<String> = (0..2).map(|n| format!("eth{n}")).collect();
        let mut all = Interfaces::new(vec![true, true]);
        assert!(all.set_running(&[true, true], &names).is_empty());
        assert_eq!(all.set_running(&[true, false], &names).len(), 1);
        assert!(all.set_running(&[true, false], &names).is_empty());
        let view = &all.views(&names, None)[0];
        assert_eq!((view.up, view.went_down, view.attached), ([true, false], 1, [true, true]));
        assert!(all.set_running(&[true, true], &names)[0].contains("eth1 is up"));
    }
}
