//! Traffic over a transport, and its installation in a world.

use std::sync::Arc;

use weir_core::Nanos;

use crate::endpoint::Endpoint;
use crate::network::FlowSpec;
use crate::packet::FlowId;
use crate::random::Draws;
use crate::world::World;

use super::connection::{Answering, Asking, Connections, Link};
use super::flows::{Flows, Workload};
use super::incast::Incast;
use super::placement::{Begin, Placement};
use super::request::{Habits, Users};
use super::transport::{Opener, Opening, Supply, Transport};
use super::web::{Pages, Reader};

/// Traffic over a transport.
#[derive(Clone, Debug)]
pub(super) enum TransportTraffic {
    /// One flow; without `bytes`, it does not end.
    Tcp { bytes: Option<u64> },
    /// Flows that start at random times.
    Flows(Workload),
    /// Users who send requests; `request` is the network-layer length of a request.
    Requests { habits: Habits, users: u32, request: u32, persistent: bool },
    /// A user who reads pages.
    Web { pages: Pages, connections: u32, request: u32 },
    /// Responses of all sources. If `shared`, `size` is the sum of the responses; otherwise the
    /// size of each.
    Incast {
        size: u64,
        shared: bool,
        interval: Nanos,
        queries: u64,
        request: u32,
        persistent: bool,
    },
}

/// Where traffic over a transport is installed.
pub(super) struct Site<'a> {
    pub(super) begin: &'a Begin,
    pub(super) what: &'a TransportTraffic,
    pub(super) transport: &'a Arc<dyn Transport>,
    pub(super) world: &'a mut World,
    pub(super) specs: &'a [FlowSpec],
    pub(super) from: Nanos,
    pub(super) at: &'a Placement<'a>,
}

impl Site<'_> {
    pub(super) fn install(mut self) -> Vec<FlowId> {
        let Some(spec) = self.specs.first() else { return Vec::new() };
        let Begin { until, label, .. } = *self.begin;
        let Placement { seed, number, .. } = *self.at;
        let span = (self.from, until);
        let draws = || (Draws::new(seed, number, 1), Draws::new(seed, number, 2));
        // Each installation of traffic in a run opens its flows with other seeds.
        let seed = seed.rotate_left(32) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let opening = Opening {
            supply: Supply::Unlimited,
            owner: None,
            start: self.from,
            stop: Nanos::MAX,
            label,
            seed,
        };
        let opener = Opener { transport: Arc::clone(self.transport), opening };
        match self.what {
            &TransportTraffic::Tcp { bytes } => {
                let opening = Opening {
                    supply: bytes.map_or(Supply::Unlimited, Supply::Bytes),
                    stop: until,
                    ..opening
                };
                let (source, sink) = self.transport.ends(self.world.next_flow(), &opening);
                vec![self.world.add_flow(spec, source, sink)]
            }
            TransportTraffic::Flows(workload) => {
                let template = self.world.add_template(spec);
                self.world.add_endpoint(Box::new(Flows::new(
                    opener,
                    template,
                    workload.clone(),
                    span,
                    draws(),
                )));
                vec![template]
            }
            TransportTraffic::Requests { habits, users, request, persistent } => {
                let ends = vec![spec; *users as usize];
                self.add_owner(&ends, *request, |links| {
                    let connections = Connections::new(opener, links, *persistent);
                    Box::new(Users::new(connections, links, habits.clone(), span, draws()))
                })
            }
            TransportTraffic::Web { pages, connections, request } => {
                let ends = vec![spec; *connections as usize];
                self.add_owner(&ends, *request, |links| {
                    Box::new(Reader::new(
                        Connections::new(opener, links, true),
                        links,
                        pages.clone(),
                        span,
                        draws(),
                    ))
                })
            }
            &TransportTraffic::Incast { size, shared, interval, queries, request, persistent } => {
                let ends: Vec<&FlowSpec> = self.specs.iter().collect();
                let size = if shared { size.div_ceil(ends.len() as u64) } else { size };
                self.add_owner(&ends, request, |links| {
                    Box::new(Incast::new(
                        Connections::new(opener, links, persistent),
                        links,
                        size,
                        interval,
                        queries,
                        span,
                    ))
                })
            }
        }
    }

    /// Adds an owner of connections, with a flow of requests for each. Returns the template of the
    /// responses of each connection.
    fn add_owner(
        &mut self,
        ends: &[&FlowSpec],
        request: u32,
        owner: impl FnOnce(&[Link]) -> Box<dyn Endpoint>,
    ) -> Vec<FlowId> {
        let id = self.world.reserve_endpoint();
        let joint = matches!(self.what, TransportTraffic::Incast { .. });
        let mut template = None;
        let mut links = Vec::with_capacity(ends.len());
        for (index, &spec) in ends.iter().enumerate() {
            let header = if spec.key.ipv6 { 48 } else { 28 };
            let asking = Asking::new(self.world.next_flow(), request, header);
            let control =
                self.world.add_flow(spec, Box::new(Answering { owner: id }), Box::new(asking));
            uncount(self.world, control);
            // Connections on the same path share one template.
            if index == 0 || joint {
                template = Some(self.world.add_template(spec));
            }
            links.extend(template.map(|template| Link { control, template }));
        }
        self.world.fill_endpoint(id, owner(&links));
        links.into_iter().map(|link| link.template).collect()
    }
}

/// Excludes a flow from the opened flows of its group.
pub(super) fn uncount(world: &mut World, flow: FlowId) {
    world.network_mut().count(flow).opened -= 1;
}
