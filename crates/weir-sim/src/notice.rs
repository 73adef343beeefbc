//! Numbers of endpoints, and the notices that endpoints exchange without the network.

/// Number of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u32);

/// A notice between an application and its transport, which does not cross the network.
///
/// Between a client and its flow of requests, [`Notice::Write`] and [`Notice::Delivered`] contain
/// the number of a request instead of bytes, and [`Notice::Done`] reports that the request has
/// arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// To a transport: send this many more bytes.
    Write(u64),
    /// To a transport: the application writes nothing more. The transport answers [`Notice::Done`]
    /// when all data is acknowledged.
    Close,
    /// From a transport's receiving end: this many more bytes have arrived in order.
    Delivered(u64),
    /// From a transport's sending end: the application has closed the connection, and all data that
    /// it wrote is acknowledged.
    Done,
}
