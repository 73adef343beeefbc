//! Runs experiments by name and prints what came of them: `findings [quick] NAME…`, all without a name.

use weir_sim::experiments::{EXPERIMENTS, Options};

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let quick = names.first().is_some_and(|first| first == "quick");
    names.drain(..usize::from(quick));
    let options = Options { quick, ..Options::default() };
    for experiment in EXPERIMENTS.iter().filter(|e| names.is_empty() || names.iter().any(|name| name == e.name)) {
        let start = std::time::Instant::now();
        let finding = (experiment.run)(&options);
        println!("== {} ({:.1} s): {}", experiment.name, start.elapsed().as_secs_f64(), finding.title);
        for table in &finding.tables {
            println!("\n{}\n{}", table.title, table.columns.join(" | "));
            for row in &table.rows {
                println!("{}", row.iter().map(|cell| cell.text()).collect::<Vec<_>>().join(" | "));
            }
        }
        for claim in &finding.claims {
            println!("{:?}: {} — {}", claim.holds, claim.words, claim.detail);
        }
    }
}
