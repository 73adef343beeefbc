//! Connections of real stacks as traffic.

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::packet::FlowId;
use crate::stack::{self, Control, Load, Options, Stack};

use super::refusal::{Checked, Reason, SpecError, refuse};
use super::settings::StackControl;
use super::site::TransportTraffic;
use super::source::Sink;
use super::spec;
use super::transport::{Opening, Supply, Transport};

/// Connections of one stack that share one configuration. A connection without an owner counts
/// itself.
#[derive(Debug)]
struct Real {
    stack: Stack,
    options: Options,
}

impl Transport for Real {
    fn ends(&self, flow: FlowId, opening: &Opening) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
        let Opening { supply, owner, start, seed, .. } = *opening;
        let load = match supply {
            Supply::Unlimited => Load::Bulk,
            Supply::Bytes(bytes) => Load::Bytes(bytes),
            Supply::Written => Load::Written,
        };
        let options = Options { start, seed, owner, ..self.options };
        // The check has verified that the build contains the stack.
        stack::ends(self.stack, flow, load, options)
            .unwrap_or_else(|_| (Box::new(Sink), Box::new(Sink)))
    }

    fn protocol(&self) -> u8 {
        match self.stack {
            Stack::Smoltcp => 6,
            Stack::Quic => 17,
        }
    }
}

/// Checks the connection and its transport.
pub(super) fn check(spec: &spec::RealStack) -> Checked<(TransportTraffic, Arc<dyn Transport>)> {
    let words = |words| SpecError { setting: "stack", reason: Reason::Words(words) };
    let Some(stack) = Stack::from_name(&spec.stack) else {
        let names = Stack::ALL.map(Stack::name).join(", ");
        return Err(words(format!("`{}` is no stack; allowed: {names}", spec.stack)));
    };
    if let Err(missing) = stack::ends(stack, FlowId(0), Load::Bulk, Options::default()) {
        return Err(words(missing.to_string()));
    }
    let beyond = [
        ("stop", spec.stop.is_some()),
        ("ecn", spec.ecn.is_some()),
        ("label", spec.label.is_some()),
        ("deadline", spec.deadline.is_some()),
        ("deadline_per_switch", spec.deadline_per_switch.is_some()),
    ];
    if let Some((setting, _)) = beyond.into_iter().find(|&(_, given)| given) {
        return refuse(
            setting,
            Reason::Words(
                "a real stack decides about its packets itself; remove this setting".to_owned(),
            ),
        );
    }
    if !(1280..=9000).contains(&spec.mtu.0) {
        return refuse("mtu", Reason::Range("it is from 1280 to 9000 bytes"));
    }
    if !(spec.mtu.0..=1 << 30).contains(&spec.window.0) {
        return refuse("window", Reason::Range("it is from a packet to 1GiB"));
    }
    if spec.bytes.is_some_and(|bytes| bytes.0 == 0) {
        return refuse("bytes", Reason::Range("it must be above 0"));
    }
    let control = match spec.cc {
        StackControl::NewReno => Control::NewReno,
        StackControl::Cubic => Control::Cubic,
    };
    let options = Options {
        control,
        window: spec.window.0 as u32,
        mtu: spec.mtu.0 as u16,
        ..Options::default()
    };
    Ok((
        TransportTraffic::Tcp { bytes: spec.bytes.map(|bytes| bytes.0) },
        Arc::new(Real { stack, options }),
    ))
}
