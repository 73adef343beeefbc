//! The kinds of traffic that the generator sends as datagrams, at times given by the simulator's
//! sources.

use weir_rules::NoFiles;
use weir_sim::scenario::Traffic;
use weir_sim::traffic::Spec;

/// Whether traffic of this kind consists of datagrams. Each datagram is sent regardless of what
/// happened to earlier datagrams.
pub fn is_datagrams(spec: &Spec) -> bool {
    DATAGRAMS.contains(&spec.kind())
}

/// Replaces the traffic by datagrams at intervals so long that hardly any are sent. This silences
/// traffic in a simulation that is only needed for the datagrams of one host.
pub fn silence(traffic: &mut Traffic) {
    let almost_nothing = serde_json::from_str::<Spec>(r#"{"kind":"cbr","interval":"1000s"}"#);
    if let Ok(spec) = almost_nothing
        && let Ok(plan) = spec.check(&NoFiles)
    {
        (traffic.spec, traffic.plan) = (spec, plan);
    }
}

/// The kind of traffic in which the destination sends each datagram back.
pub const PING: &str = "ping";
/// The kinds of traffic that consist of datagrams.
pub const DATAGRAMS: [&str; 10] =
    ["cbr", "poisson", "pareto", "on-off", "markov", "voip", "imix", "trace", "probe", PING];
