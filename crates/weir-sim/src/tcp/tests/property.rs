//! Property: every byte arrives once, whatever the wire does.

use super::*;
use proptest::prelude::*;
use weir_core::rng::{Purpose, Stream};

/// Probabilities of the wire's faults, in thousandths, and the seed of their draws.
#[derive(Clone, Copy, Debug)]
struct Faults {
    drop: u32,
    late: u32,
    twice: u32,
    mark: u32,
    seed: u64,
}

fn faults() -> impl Strategy<Value = Faults> {
    let share = prop_oneof![Just(0u32), 1u32..50, 50u32..300];
    (share.clone(), share, 0u32..200, 0u32..300, any::<u64>())
        .prop_map(|(drop, late, twice, mark, seed)| Faults { drop, late, twice, mark, seed })
}

fn script(faults: Faults) -> impl FnMut(&Packet) -> Fate {
    let mut stream = Stream::new(faults.seed, 0, Purpose::Loss);
    move |packet| {
        let draw = stream.below(1000);
        let amount = u64::from(stream.below(60));
        let Faults { drop, late, twice, mark, .. } = faults;
        match draw {
            // The wire has no faults after 200 s, so that every transfer ends.
            _ if packet.sent > Nanos::from_secs(200) => Fate::Pass,
            d if d < drop => Fate::Drop,
            d if d < drop + late => Fate::Late(amount),
            d if d < drop + late + twice => Fate::Twice,
            d if d < drop + late + twice + mark && packet.ecn != Ecn::NotEct => Fate::Mark,
            _ => Fate::Pass,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_byte_arrives_once_whatever_the_wire_does(
        faults in faults(),
        segments in 1u64..300,
        kind in prop::sample::select(Kind::ALL.to_vec()),
        train in 1u8..4,
        pacing in prop::option::of(any::<bool>()),
        ecn in prop::option::of(any::<bool>()),
        probe in any::<bool>(),
        handshake in any::<bool>(),
        slow in prop::option::of(1_000_000u64..10_000_000),
    ) {
        let options = Config {
            control: kind.into(), train, pacing, ecn, probe, handshake,
            read_rate: slow,
            receive_buffer: if slow.is_some() { 20_000 } else { 4 << 20 },
            max_rto: Nanos::from_secs(4),
            ..config(segments)
        };
        let mut wire = Wire::new(&options, script(faults));
        // `run` checks the sums of the scoreboard after each event.
        wire.run(1_000_000);
        wire.assert_done(segments);
    }
}
