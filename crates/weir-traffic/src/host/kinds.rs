//! The kinds of traffic that this generator sends: datagrams at the times that the simulator's
//! sources give.

use weir_rules::NoFiles;
use weir_sim::scenario::Traffic;
use weir_sim::traffic::Spec;

/// Whether traffic of this kind consists of datagrams, which are sent whatever happens to earlier
/// ones.
pub fn is_datagrams(spec: &Spec) -> bool {
    DATAGRAMS.contains(&spec.kind())
}

/// Makes traffic send almost nothing, and nothing that is answered.
pub fn silence(traffic: &mut Traffic) {
    let nothing = serde_json::from_str::<Spec>(r#"{"kind":"cbr","interval":"1000s"}"#);
    if let Ok(spec) = nothing
        && let Ok(plan) = spec.check(&NoFiles)
    {
        (traffic.spec, traffic.plan) = (spec, plan);
    }
}

/// The kind of traffic with a destination that sends each datagram back.
pub const PING: &str = "ping";
/// Kinds of traffic that consist of datagrams.
pub const DATAGRAMS: [&str; 10] =
    ["cbr", "poisson", "pareto", "on-off", "markov", "voip", "imix", "trace", "probe", PING];
