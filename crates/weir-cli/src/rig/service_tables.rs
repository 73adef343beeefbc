//! Tables of the service metrics of `weir rig`.

use std::fmt::Write as _;

use weir_report::format::count;
use weir_rig::Order;
use weir_rig::service::{Class, Service};

use super::args::Metric;
use super::config::Config;
use super::measure::Measured;
use crate::table::Table;

/// A table for each service metric, with the schedulers of one flow set.
pub(crate) fn tables(config: &Config, measured: &[&Measured]) -> String {
    let mut text = String::new();
    let Some((first, service)) = measured.iter().find_map(|m| Some((*m, m.service.as_ref()?)))
    else {
        return text;
    };
    let load = match &config.order {
        Order::Trace(_) => config.order_text.clone(),
        _ => config.load.to_string(),
    };
    let _ = writeln!(text, "service of {}, {load}, {} packets", first.set, count(service.packets));
    if config.measures(Metric::Wfi) {
        text += "\nworst-case fairness (B-WFI) and mean deviation from the fluid; unit: the \
            largest packet of the class\n";
        text += &wfi(measured);
    }
    if config.measures(Metric::Delay) {
        text += "\ndelay, and time behind the fluid (late), each as the bytes that the link sends \
            in that time; lag and lead: the bytes by which a flow is behind and ahead of the \
            fluid\n";
        text += &delay(measured);
    }
    for measured in measured {
        let Some(service) = &measured.service else { continue };
        let dropped: u64 = service.classes.iter().map(|class| class.dropped).sum();
        if dropped > 0 {
            let _ = writeln!(
                text,
                "note: {} dropped {} packets; the fluid drops none, so that its differences from \
                 the scheduler contain them",
                measured.run.alg,
                count(dropped)
            );
        }
    }
    text
}

/// Every class of every measured scheduler.
fn classes<'a>(
    measured: &[&'a Measured],
) -> impl Iterator<Item = (&'a str, &'a Service, &'a Class)> {
    let services = measured
        .iter()
        .filter_map(|m| Some((m.run.alg.as_str(), m.service.as_ref()?)))
        .collect::<Vec<_>>();
    services
        .into_iter()
        .flat_map(|(alg, service)| service.classes.iter().map(move |class| (alg, service, class)))
}

fn name(class: &Class) -> String {
    format!("{} × w{} l{}", class.group.count, class.group.weight, class.group.lmax)
}

fn wfi(measured: &[&Measured]) -> String {
    let mut table = Table::new([
        "scheduler",
        "class",
        "B-WFI",
        "mean",
        "bound",
        "of bound",
        "bound is",
        "Jain",
    ]);
    for (alg, service, class) in classes(measured) {
        let dash = || "-".to_owned();
        let status = match class.is_within_bound() {
            Some(false) => "EXCEEDED".to_owned(),
            _ => class.bound.status.to_string(),
        };
        table.add_row(vec![
            alg.to_owned(),
            name(class),
            format!("{:.2}", class.bwfi_packets()),
            class.deviation_packets().map_or_else(dash, |mean| format!("{mean:.2}")),
            class.bound_packets().map_or_else(dash, |bound| format!("{bound:.2}")),
            class.of_bound().map_or_else(dash, |part| format!("{:.0} %", part * 100.0)),
            status,
            format!("{:.4}", service.jain),
        ]);
    }
    table.text()
}

fn delay(measured: &[&Measured]) -> String {
    let mut table = Table::new(["scheduler", "class", "delay", "allowed", "late", "lag", "lead"]);
    for (alg, _, class) in classes(measured) {
        let bytes = |bytes: f64| count(bytes.max(0.0).round() as u64);
        table.add_row(vec![
            alg.to_owned(),
            name(class),
            count(class.delay_max),
            class.delay_bound.map_or_else(|| "-".to_owned(), |bound| bytes(bound.to_f64())),
            bytes(class.late.to_f64()),
            bytes(class.lag.to_f64()),
            bytes(class.lead.to_f64()),
        ]);
    }
    table.text()
}
