//! Properties of the language: no text causes a panic, and printed text reads back.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_core::config::{
    Capacity, FlowsetConfig, Jitter, LinkConfig, Loss, PipeConfig, QueueLimit, Reorder,
};
use weir_core::device::{Completion, DQL_MAX, DeviceConfig, Done, DqlConfig, StageConfig};
use weir_core::dist::Distribution;
use weir_core::key::FlowMask;
use weir_core::link::Overhead;
use weir_core::sched::{self, Discipline, Kind};
use weir_core::units::{Bytes, Nanos, Probability, Rate};
use weir_rules::{
    Gso, LinkSpec, NoFiles, canonical, check_change, check_spec, dist, keyword, parse_spec,
    profile, trace,
};

const HOUR: u64 = 3_600_000_000_000;

fn probability() -> impl Strategy<Value = Probability> {
    prop_oneof![0.0..=1.0f64, Just(0.0), Just(1.0), 0.0..1e-12f64]
        .prop_map(|p| Probability::new(p).unwrap())
}

fn loss() -> impl Strategy<Value = Loss> {
    let bernoulli = probability()
        .prop_filter("a loss of zero is no loss", |p| !p.is_zero())
        .prop_map(Loss::Bernoulli);
    let chain =
        [probability(), probability(), probability(), probability()].prop_map(|[k, p, h, r]| {
            Loss::GilbertElliott { loss_in_good: k, good_to_bad: p, loss_in_bad: h, bad_to_good: r }
        });
    prop_oneof![Just(Loss::None), bernoulli, chain]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let shapes = prop_oneof![
        Just(Distribution::uniform()),
        Just(Distribution::normal()),
        Just(Distribution::pareto()),
        Just(Distribution::pareto_normal())
    ];
    (0..=HOUR, shapes, probability(), any::<bool>()).prop_map(
        |(amount, distribution, correlation, may_reorder)| Jitter {
            amount: Nanos(amount),
            distribution: Arc::new(distribution),
            correlation,
            may_reorder,
        },
    )
}

fn device() -> impl Strategy<Value = DeviceConfig> {
    let limit = prop_oneof![
        (1..=1_000_000u32).prop_map(QueueLimit::Packets),
        (1..=1_000_000_000_000u64).prop_map(QueueLimit::Bytes)
    ];
    let coalesce = prop_oneof![Just((0, 0)), (1..=65_535u32, 0..=HOUR)];
    let completion = (coalesce, any::<bool>()).prop_map(|((frames, time), sent)| Completion {
        when: if sent { Done::Sent } else { Done::Read },
        frames,
        time: Nanos(time),
    });
    let dql = (0..=DQL_MAX, 0..=DQL_MAX, 0..=HOUR).prop_map(|(a, b, hold)| DqlConfig {
        least: a.min(b),
        most: a.max(b),
        hold: Nanos(hold),
    });
    let dql = prop_oneof![Just(DqlConfig::default()), dql];
    (limit, 0..=1_000_000_000u64, completion, proptest::option::of(dql)).prop_map(
        |(limit, service, completion, dql)| DeviceConfig {
            ring: StageConfig { limit, service: Nanos(service), ..StageConfig::default() },
            completion,
            dql,
            ..DeviceConfig::default()
        },
    )
}

fn link() -> impl Strategy<Value = LinkConfig> {
    let capacity = prop_oneof![
        Just(Capacity::Unlimited),
        (1..=400_000_000_000u64).prop_map(|bps| Capacity::Constant(Rate::new(bps).unwrap())),
        (1..=400u64).prop_map(|g| Capacity::Constant(Rate::new(g * 1_000_000_000).unwrap()))
    ];
    let overhead = (-1000..=1000i32, 0..=65_535u32, any::<bool>())
        .prop_map(|(per_packet, minimum, atm_cells)| Overhead { per_packet, minimum, atm_cells });
    let reorder = (probability(), 1..=1_000_000u32, probability())
        .prop_map(|(probability, gap, correlation)| Reorder { probability, gap, correlation });
    let parts = (
        capacity,
        0..=1_000_000_000_000u64,
        overhead,
        prop_oneof![0..=HOUR, 0..1000u64],
        proptest::option::of(device()),
    );
    let harm = (
        proptest::option::of(jitter()),
        loss(),
        probability(),
        probability(),
        proptest::option::of(reorder),
    );
    (parts, harm).prop_map(
        |(
            (capacity, burst, overhead, delay, device),
            (jitter, loss, duplicate, corrupt, reorder),
        )| LinkConfig {
            capacity,
            burst: Bytes(burst),
            overhead,
            delay: Nanos(delay),
            device: device.map(Arc::new),
            jitter,
            loss,
            duplicate,
            corrupt,
            reorder,
            ..LinkConfig::default()
        },
    )
}

fn mask() -> impl Strategy<Value = FlowMask> {
    let addresses =
        (any::<u32>(), any::<u32>(), any::<u128>(), any::<u128>(), 0..1u64 << 48, 0..1u64 << 48);
    let rest = (0..1u32 << 20, any::<u16>(), any::<u16>(), 0..4096u16, any::<u8>(), 0..64u8);
    (addresses, rest).prop_map(
        |(
            (src_ip, dst_ip, src_ip6, dst_ip6, src_mac, dst_mac),
            (flow_id, src_port, dst_port, vlan, proto, dscp),
        )| FlowMask {
            src_ip,
            dst_ip,
            src_ip6,
            dst_ip6,
            src_mac,
            dst_mac,
            flow_id,
            src_port,
            dst_port,
            vlan,
            proto,
            dscp,
        },
    )
}

fn spec() -> impl Strategy<Value = LinkSpec> {
    let limit = prop_oneof![
        (1..=10_000_000u32).prop_map(QueueLimit::Packets),
        (1..=1_000_000_000_000u64).prop_map(QueueLimit::Bytes)
    ];
    let masks = prop_oneof![Just(FlowMask::default()), mask()];
    let queue = (
        masks,
        1..=65_536u32,
        64..=65_536u32,
        0..=63u32,
        proptest::option::of(limit),
        loss(),
        proptest::option::of(1..=10_000_000u32),
    )
        .prop_map(|(mask, weight, max_packet, priority, limit, loss, max_flows)| {
            FlowsetConfig {
                mask,
                weight,
                max_packet,
                priority,
                limit,
                loss,
                max_flows,
                ..FlowsetConfig::default()
            }
        });
    let gso = prop_oneof![Just(Gso::Split), Just(Gso::Whole)];
    let schedulers = sched::TABLE.iter().filter(|row| row.traits.classifies);
    let schedulers: Vec<_> = schedulers.filter_map(|row| Kind::from_name(row.name)).collect();
    let scheduler = proptest::option::of(proptest::sample::select(schedulers))
        .prop_map(|kind| kind.map(Discipline::new));
    (link(), queue, scheduler, gso).prop_map(|(link, queue, scheduler, gso)| LinkSpec {
        pipe: PipeConfig { link, queue, scheduler },
        gso,
        ..LinkSpec::default()
    })
}

/// Text that resembles a specification: keywords, values, separators and noise.
fn nearly() -> impl Strategy<Value = String> {
    let words: Vec<&'static str> = keyword::words()
        .chain(keyword::TABLE.iter().flat_map(|r| r.choices.iter().map(|c| c.name)))
        .collect();
    let values = "[-0-9.eE,%/]{0,8}(ms|us|K|M|GB|bit/s|B)?";
    let word = prop_oneof![
        proptest::sample::select(words).prop_map(str::to_owned),
        values,
        "\\PC{0,6}",
        "[\"#\n\\\\]{1,2}"
    ];
    proptest::collection::vec(word, 0..12).prop_map(|words| words.join(" "))
}

/// Checks that reading a text and rendering its diagnostics cause no panic, and that the canonical
/// form of its specification reads back.
fn check(text: &str) -> Result<(), TestCaseError> {
    let files: BTreeMap<String, String> = [
        ("x.dist".to_owned(), "1 2 3".to_owned()),
        ("x.csv".to_owned(), "time,rate\n0,1M\n1,\n".to_owned()),
    ]
    .into();
    let checked = check_spec(text, &files);
    prop_assert_eq!(checked.spec.is_none(), checked.diagnostics.has_errors());
    let _ = (checked.diagnostics.render(true), checked.diagnostics.render(false));
    if let Some(spec) = checked.spec {
        let again = parse_spec(&canonical(&spec), &files);
        prop_assert_eq!(
            again.as_ref().map_err(ToString::to_string),
            Ok(&spec),
            "{}",
            canonical(&spec)
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(spec in spec()) {
        let text = canonical(&spec);
        let again =
            parse_spec(&text, &NoFiles).map_err(|e| TestCaseError::fail(format!("{text}\n{e}")))?;
        prop_assert_eq!(&again, &spec, "{}", text);
        prop_assert_eq!(canonical(&again), text);
    }

    #[test]
    fn the_words_of_a_change_are_in_force_whatever_the_link_was(base in spec(), other in spec()) {
        let change = |base: &LinkSpec, wanted: &LinkSpec| {
            let checked = check_change(base, &canonical(wanted), &NoFiles);
            checked.spec.expect("a canonical specification is a valid change")
        };
        prop_assert_eq!(&change(&base, &base), &base, "its own words change nothing");
        prop_assert_eq!(&change(&LinkSpec::default(), &other), &other);
        let merged = change(&base, &other);
        prop_assert_eq!(&change(&merged, &other), &merged, "the words are in force already");
        let text = canonical(&merged);
        prop_assert_eq!(parse_spec(&text, &NoFiles).ok(), Some(merged), "{}", text);
    }

    #[test]
    fn no_change_causes_a_panic(base in spec(), words in nearly()) {
        let checked = check_change(&base, &words, &NoFiles);
        prop_assert_eq!(checked.spec.is_none(), checked.diagnostics.has_errors());
    }

    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,60}") {
        check(&text)?;
    }

    #[test]
    fn no_text_like_a_specification_causes_a_panic(text in nearly()) {
        check(&text)?;
    }

    #[test]
    fn no_file_causes_a_panic(
        text in "((time|rate|delay|prob|loss|samples|name|bw|[0-9eE.%-]{0,6}|\\PC{0,3})[ ,\n\t#]{1,2}){0,20}",
    ) {
        let _ = (
            dist::parse(&text, "f"),
            profile::parse(&text, "f"),
            trace::parse_mahimahi(&text, "f"),
        );
        for repeats in [false, true] {
            if let Err(error) = trace::parse_csv(&text, "f", repeats) {
                prop_assert!(error.text.is_char_boundary(error.span.start));
            }
        }
    }
}
