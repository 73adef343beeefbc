//! Runs a published experiment and prints its finding as JSON: `experiment NAME [quick]`.

use weir_sim::experiments::{EXPERIMENTS, Options};

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    let quick = args.next().is_some();
    let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == name).expect("the name of an experiment");
    let finding = (experiment.run)(&Options { quick, ..Options::default() });
    for table in &finding.tables {
        println!("\n{}\n{}", table.title, table.columns.join(" | "));
        for row in &table.rows {
            println!("{}", row.iter().map(|cell| cell.text()).collect::<Vec<_>>().join(" | "));
        }
    }
    for claim in &finding.claims {
        println!("{:?} {}: {}", claim.holds, claim.words, claim.detail);
    }
}
