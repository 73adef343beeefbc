//! TCP as the transport of traffic.

use crate::endpoint::Endpoint;
use crate::packet::FlowId;
use crate::tcp::{Config, Data, ends};

use super::transport::{Opening, Supply, Transport};

/// TCP connections that share one configuration.
#[derive(Debug)]
pub(super) struct Tcp {
    config: Config,
}

impl Tcp {
    pub(super) fn new(config: Config) -> Self {
        Self { config }
    }
}

impl Transport for Tcp {
    fn ends(&self, flow: FlowId, opening: &Opening) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
        let Opening { supply, owner, start, stop, label, seed } = *opening;
        let data = match supply {
            Supply::Unlimited => Data::Unlimited,
            Supply::Bytes(bytes) => Data::Bytes(bytes),
            Supply::Written => Data::Written,
        };
        ends(
            flow,
            &Config {
                data,
                owner,
                start,
                stop,
                label,
                seed,
                counts: owner.is_none(),
                ..self.config
            },
        )
    }

    fn protocol(&self) -> u8 {
        6
    }
}
