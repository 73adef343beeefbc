//! Tests `weir reproduce` for experiments that use namespaces and the kernel's own queues.

use std::process::Command;

use libtest_mimic::Trial;

use crate::common::{Copies, Lab, NOBODY, Need, output_of, trial};

pub(crate) fn tests() -> Vec<Trial> {
    let needs: &[Need] = &[Need::Root, Need::Program("tc"), Need::Program("ip")];
    let as_user: &[Need] = &[Need::Root, Need::Program("setpriv")];
    vec![
        trial("the_queue_samplers_network_is_read_by_all_methods", needs, queue_sampler),
        trial(
            "without_root_experiments_on_the_kernel_report_that_they_need_root",
            as_user,
            without_root,
        ),
    ]
}

fn queue_sampler(lab: &Lab) {
    let before = output_of("ip link; ip netns");
    let out = lab.path("figures").display().to_string();
    let done =
        lab.weir(["reproduce", "queue-sampler", "--clients", "2", "--seconds", "1", "--out", &out]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("Verdict: "), "{done:?}");
    let result = lab.document("figures/queue-sampler.json");
    let cell = |table: usize, column: &str| {
        let table = &result["tables"][table];
        let columns = table["columns"].as_array().expect("columns");
        let place = columns
            .iter()
            .position(|name| name == column)
            .unwrap_or_else(|| panic!("no {column} in {table}"));
        table["rows"][0][place].clone()
    };
    let value =
        |table: usize, column: &str| cell(table, column)["value"].as_f64().unwrap_or(f64::NAN);
    assert!(value(0, "tc") > 0.0 && value(0, "netlink") > value(0, "tc"), "{result:#}");
    // The fifth table lists what was not tried, such as `loop` where BPF is not permitted.
    if result["tables"][4].is_null() {
        assert!(value(0, "loop") > value(0, "tc"), "{result:#}");
    }
    assert!(value(2, "sent") > 0.0 && value(2, "arrived so far, %") > 0.0, "{result:#}");
    assert!(value(2, "fastest, ms") >= 500.0, "Weir does not delay: {result:#}");
    assert!(result["claims"].as_array().is_some_and(|claims| claims.len() == 4), "{result:#}");
    for name in ["samples.svg", "variance.svg", "stretch.png", "histogram-2.svg"] {
        assert!(
            lab.path(&format!("figures/queue-sampler-{name}")).exists(),
            "{name} is missing: {done:?}"
        );
    }
    assert_eq!(output_of("ip link; ip netns"), before, "something is left");
}

fn without_root(lab: &Lab) {
    let copies = Copies::make(lab);
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).args([&copies.weir, "reproduce", "queue-sampler"]);
    let done = lab.launch(&mut command).finish();
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.stderr.contains("needs root"), "{done:?}");
    let mut command = Command::new(NOBODY[0]);
    command.args(&NOBODY[1..]).args([&copies.weir, "reproduce", "emulation-accuracy"]);
    let done = lab.launch(&mut command).finish();
    assert_eq!(done.code, 125, "{done:?}");
    assert!(done.stderr.contains("needs root"), "{done:?}");
}
