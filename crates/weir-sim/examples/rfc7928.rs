//! Runs the suite of RFC 7928 and prints its tables: `rfc7928 [quick] QUEUE…`, queues as `weir rig --aqm` takes them.

use weir_rules::manager::Manager;
use weir_sim::experiments::Options;
use weir_sim::suite::rfc7928;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "quick");
    let managers: Vec<Manager> = words.iter().filter(|word| *word != "quick").map(|word| Manager::parse(word).expect("a queue")).collect();
    let finding = rfc7928::run(&managers, &Options { quick, ..Options::default() }, &|_, _| {});
    for table in &finding.tables {
        println!("\n{}\n{}", table.title, table.columns.join(" | "));
        for row in &table.rows {
            println!("{}", row.iter().map(|cell| cell.text()).collect::<Vec<_>>().join(" | "));
        }
    }
}
