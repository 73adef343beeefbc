//! Sends 10⁹ packets, or the given number, over one link of the engine in the simulator:
//! `billion [PACKETS]`. After each hundredth of the run, it checks that every packet is accounted
//! for. After each tenth, it prints the identities.

use std::process::ExitCode;

mod passage;

fn main() -> ExitCode {
    let argument = std::env::args().nth(1);
    let packets = argument.map_or(Ok(1_000_000_000), |words| words.replace('_', "").parse());
    let Ok(packets) = packets else {
        eprintln!("usage: billion [PACKETS]");
        return ExitCode::from(2);
    };
    let checked = passage::run(packets, |percent, accounts| {
        if percent % 10 == 0 {
            println!("{percent:3} %: {accounts}");
        }
    });
    match checked {
        Ok(sent) => {
            println!("{sent} packets, each accounted for");
            ExitCode::SUCCESS
        }
        Err(accounts) => {
            eprintln!("a packet is not accounted for: {accounts}");
            ExitCode::FAILURE
        }
    }
}
