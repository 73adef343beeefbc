//! A session's links as its control socket shows them: their descriptions and their counters.

use std::collections::BTreeMap;

use weir_control::api::{LinkReading, Readings, SessionLink, TimeCounts};
use weir_core::stats::LinkStats;
use weir_linux::live::{LaneReport, NoAnswer};
use weir_rules::canonical;

use crate::session::{Control, Link};

/// The description of a link.
pub(crate) fn shown(link: &Link) -> SessionLink {
    SessionLink { name: link.name.clone(), spec: canonical(&link.spec), whole: link.whole.clone() }
}

/// The counters of each link, and of each path over several links.
pub(crate) fn readings(control: &Control) -> Result<Readings, NoAnswer> {
    let report = control.counters()?;
    let inner = control.inner_links();
    let mut links = Vec::new();
    if !inner.is_empty() {
        let stats: BTreeMap<u16, LinkStats> = control.engine().pipe_stats()?.into_iter().collect();
        let nothing = LinkStats::default();
        links.extend(
            inner.iter().map(|(id, name)| of_link(name, stats.get(id).unwrap_or(&nothing))),
        );
    }
    links.extend(report.lanes.into_iter().map(|lane| of_lane(lane, !inner.is_empty())));
    Ok(Readings { at_ns: report.at.since(report.started).0, links })
}

fn of_link(name: &str, stats: &LinkStats) -> LinkReading {
    LinkReading {
        name: name.to_owned(),
        path: false,
        counters: stats.counters.clone(),
        queue_ns: TimeCounts::from(&stats.queue_ns),
        lateness_ns: None,
    }
}

fn of_lane(lane: LaneReport, path: bool) -> LinkReading {
    LinkReading {
        queue_ns: TimeCounts::from(&lane.queue_ns),
        lateness_ns: Some(TimeCounts::from(&lane.lateness)),
        name: lane.name,
        path,
        counters: lane.counters,
    }
}
