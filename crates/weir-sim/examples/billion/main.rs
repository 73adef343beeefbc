//! Passes 10⁹ packets, or the given number, through one link of the engine in the simulator, and
//! checks at every hundredth that each packet is accounted for: `billion [packets]`. Prints the
//! identities at every tenth.

use std::process::ExitCode;
use std::time::Instant;

mod passage;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let packets = argument.map_or(Ok(1_000_000_000), |words| words.replace('_', "").parse());
    let Ok(packets) = packets else {
        eprintln!("usage: billion [PACKETS]");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let checked = passage::run(packets, |part, accounts| {
        if part % 10 == 0 {
            println!("{part:3} %, {:4} s: {accounts}", start.elapsed().as_secs());
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    match checked {
        Ok(sent) => {
            println!(
                "{sent} packets in {seconds:.0} s: {:.0} ns each",
                seconds * 1e9 / sent as f64
            );
            ExitCode::SUCCESS
        }
        Err(accounts) => {
            eprintln!("a packet is not accounted for: {accounts}");
            ExitCode::FAILURE
        }
    }
}
