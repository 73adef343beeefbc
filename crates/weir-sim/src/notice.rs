//! Numbers of endpoints, and notices that they exchange without the network.

/// Number of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// A notice between endpoints that does not cross the network: from an application to its
/// transport, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// To a transport: send this many bytes more.
    Write(u64),
    /// To a transport: nothing more will be written; answer [`Notice::Done`] when everything is
    /// acknowledged.
    Close,
    /// From a transport's receiving end: this many bytes more have arrived in order.
    Delivered(u64),
    /// From a transport's sending end: everything written so far is acknowledged (and it was
    /// closed).
    Done,
}
