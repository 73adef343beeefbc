//! The command line of the traffic generator: it parses arguments, calls [`weir_traffic`] and
//! prints results to stdout and messages to stderr.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use weir_traffic::TrafficError;
use weir_traffic::capture::{Watch, capture};
use weir_traffic::clock::SECOND;
use weir_traffic::echo::{Ping, echo, ping};
use weir_traffic::recv::{Listen, recv};
use weir_traffic::schedule::Pace;
use weir_traffic::send::{Plan, send};
use weir_traffic::spray::{Spray, spray};
use weir_traffic::stats::Known;

/// Generate and measure traffic over emulated links. Sizes and rates include the IP and UDP
/// headers.
#[derive(Debug, Parser)]
#[command(name = "weir-load")]
struct Cli {
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Output {
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Write the result to a file instead of stdout.
    #[arg(long, global = true)]
    out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send UDP packets with a sequence number and the time of sending.
    Send(SendArgs),
    /// Receive the packets of `send` and print statistics.
    Recv(RecvArgs),
    /// Measure round-trip times to an echo.
    Ping(PingArgs),
    /// Send every packet back.
    Echo(EchoArgs),
    /// Look for inverted bits in raw frames.
    Capture(CaptureArgs),
    /// Send raw frames to many addresses in turn.
    Spray(SprayArgs),
}

/// The address to send to.
#[derive(Debug, Args)]
struct Target {
    /// Name or address, and port.
    #[arg(long)]
    to: String,
    /// Use the name's IPv4 address.
    #[arg(short = '4')]
    v4: bool,
    /// Use the name's IPv6 address.
    #[arg(short = '6', conflicts_with = "v4")]
    v6: bool,
}

#[derive(Debug, Args)]
struct SendArgs {
    #[command(flatten)]
    target: Target,
    /// Bytes of each packet.
    #[arg(long, default_value_t = 1500)]
    size: usize,
    /// Bits per second, with an optional unit k, M or G.
    #[arg(long, value_parser = scaled, conflicts_with_all = ["pps", "flood"])]
    rate: Option<u64>,
    /// Packets per second.
    #[arg(long, value_parser = scaled, conflicts_with = "flood")]
    pps: Option<u64>,
    /// Send as fast as possible.
    #[arg(long)]
    flood: bool,
    /// Number of packets.
    #[arg(long, value_parser = scaled)]
    count: Option<u64>,
    /// How many seconds to send.
    #[arg(long, value_parser = span)]
    seconds: Option<u64>,
    /// Packets in one offload train.
    #[arg(long, default_value_t = 1)]
    train: usize,
    /// Seconds to wait before the first packet.
    #[arg(long, value_parser = span, default_value = "0.2")]
    after: u64,
    /// DSCP and ECN field: 2 is ECT(0), 1 ECT(1).
    #[arg(long, default_value_t = 0)]
    tos: u8,
}

#[derive(Debug, Args)]
struct RecvArgs {
    /// Address and port to receive on.
    #[arg(long)]
    bind: SocketAddr,
    /// Number of packets to receive.
    #[arg(long, value_parser = scaled)]
    count: Option<u64>,
    /// How many seconds to receive after the first packet.
    #[arg(long, value_parser = span)]
    seconds: Option<u64>,
    /// Stop after this many seconds without a packet.
    #[arg(long, value_parser = span, default_value = "1")]
    idle: u64,
    /// How many seconds to wait for the first packet.
    #[arg(long, value_parser = span, default_value = "10")]
    wait: u64,
    /// Number of packets sent, so that losses at the end are counted.
    #[arg(long, value_parser = scaled)]
    sent: Option<u64>,
    /// Measure bursts against this rate, in bits per second.
    #[arg(long, value_parser = scaled)]
    burst_rate: Option<u64>,
    /// List the lost sequence numbers.
    #[arg(long)]
    list_lost: bool,
    /// List the sequence number and arrival time of every packet.
    #[arg(long)]
    list_arrivals: bool,
}

#[derive(Debug, Args)]
struct PingArgs {
    #[command(flatten)]
    target: Target,
    /// Bytes of each packet.
    #[arg(long, default_value_t = 84)]
    size: usize,
    /// Number of packets.
    #[arg(long, default_value_t = 100)]
    count: u32,
    /// Seconds between packets.
    #[arg(long, value_parser = span, default_value = "0.01")]
    interval: u64,
    /// How many seconds to wait for the last answer.
    #[arg(long, value_parser = span, default_value = "1")]
    timeout: u64,
    /// Send ICMP echo requests, which the kernel answers. The port is ignored.
    #[arg(long)]
    icmp: bool,
}

#[derive(Debug, Args)]
struct EchoArgs {
    /// Address and port to receive on.
    #[arg(long)]
    bind: SocketAddr,
    /// Stop after this many packets.
    #[arg(long, value_parser = scaled)]
    count: Option<u64>,
    /// Stop after this many seconds.
    #[arg(long, value_parser = span)]
    seconds: Option<u64>,
}

#[derive(Debug, Args)]
struct CaptureArgs {
    /// Interface to listen on.
    interface: String,
    /// Bytes of each packet of the flow.
    #[arg(long)]
    size: usize,
    /// Stop after this many packets.
    #[arg(long, value_parser = scaled)]
    count: Option<u64>,
    /// Stop after this many seconds without a packet.
    #[arg(long, value_parser = span, default_value = "1")]
    idle: u64,
    /// How many seconds to wait for the first packet.
    #[arg(long, value_parser = span, default_value = "10")]
    wait: u64,
}

#[derive(Debug, Args)]
struct SprayArgs {
    /// Interface to send from.
    interface: String,
    /// Number of destination addresses, counted up from 10.2.0.0.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    customers: u32,
    /// Bytes of each packet.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Packets per second. If absent, send as fast as possible.
    #[arg(long, value_parser = scaled)]
    pps: Option<u64>,
    /// How many seconds to send.
    #[arg(long, value_parser = span, default_value = "5")]
    seconds: u64,
}

/// Runs the command and returns its exit code: 0, 1 on failure, 2 on misuse. The first argument is
/// the program's name.
pub fn main(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(e) => {
            // If stderr is closed, the message is lost.
            let _ = e.print();
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("weir-load: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<(), TrafficError> {
    match &cli.command {
        Command::Send(a) => print(&cli.output, &send(&a.plan()?)?),
        Command::Recv(a) => print(&cli.output, &recv(&a.listen())?),
        Command::Ping(a) => {
            let to = a.target.resolve()?;
            let PingArgs { size, count, interval: interval_ns, timeout: timeout_ns, icmp, .. } = *a;
            print(&cli.output, &ping(&Ping { to, size, count, interval_ns, timeout_ns, icmp })?)
        }
        Command::Echo(a) => print(
            &cli.output,
            &echo(a.bind, a.count.unwrap_or(u64::MAX), a.seconds.unwrap_or(u64::MAX))?,
        ),
        Command::Capture(a) => print(&cli.output, &capture(&a.watch())?),
        Command::Spray(a) => {
            let SprayArgs { interface, customers, size, pps, seconds } = a;
            let pace = pps.map_or(Pace::Flood, Pace::Packets);
            let plan = Spray {
                interface: interface.clone(),
                customers: *customers,
                size: *size,
                pace,
                span_ns: *seconds,
            };
            print(&cli.output, &spray(&plan)?)
        }
    }
}

impl SendArgs {
    fn plan(&self) -> Result<Plan, TrafficError> {
        let pace = match (self.rate, self.pps) {
            (Some(rate), _) => Pace::Bits(rate),
            (None, Some(pps)) => Pace::Packets(pps),
            (None, None) => Pace::Flood,
        };
        // If neither a count nor a time is given, the sender stops after ten seconds.
        let span_ns =
            self.seconds.unwrap_or(if self.count.is_some() { u64::MAX } else { 10 * SECOND });
        let count = self.count.unwrap_or(u64::MAX);
        Ok(Plan {
            to: self.target.resolve()?,
            size: self.size,
            pace,
            count,
            span_ns,
            train: self.train,
            after_ns: self.after,
            tos: self.tos,
        })
    }
}

impl RecvArgs {
    fn listen(&self) -> Listen {
        let known = Known {
            sent: self.sent,
            burst_rate: self.burst_rate,
            list_lost: self.list_lost,
            list_arrivals: self.list_arrivals,
        };
        Listen {
            bind: self.bind,
            count: self.count.unwrap_or(u64::MAX),
            span_ns: self.seconds.unwrap_or(u64::MAX),
            idle_ns: self.idle,
            wait_ns: self.wait,
            known,
        }
    }
}

impl CaptureArgs {
    fn watch(&self) -> Watch {
        let count = self.count.unwrap_or(u64::MAX);
        Watch {
            interface: self.interface.clone(),
            size: self.size,
            count,
            idle_ns: self.idle,
            wait_ns: self.wait,
        }
    }
}

impl Target {
    /// The name's first address of the requested family, from the system's resolver.
    fn resolve(&self) -> Result<SocketAddr, TrafficError> {
        use std::net::ToSocketAddrs;
        let failed = |source| TrafficError::System { what: "resolve the address", source };
        let fits = |a: &SocketAddr| (!self.v4 || a.is_ipv4()) && (!self.v6 || a.is_ipv6());
        self.to
            .to_socket_addrs()
            .map_err(failed)?
            .find(fits)
            .ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))
    }
}

fn print(output: &Output, result: &impl Serialize) -> Result<(), TrafficError> {
    let text = if output.json {
        serde_json::to_string(result)? + "\n"
    } else {
        table(&serde_json::to_value(result)?)
    };
    match &output.out {
        Some(path) => std::fs::write(path, text)
            .map_err(|source| TrafficError::System { what: "write the result", source }),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn table(value: &serde_json::Value) -> String {
    let Some(values) = value.as_object() else {
        return format!("{value}\n");
    };
    values.iter().fold(String::new(), |mut text, (name, v)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:20} {v}");
        text
    })
}

/// Parses a whole number with an optional unit k, M or G.
fn scaled(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((i, 'k')) => (&text[..i], 1_000),
        Some((i, 'M')) => (&text[..i], 1_000_000),
        Some((i, 'G')) => (&text[..i], 1_000_000_000),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    number.ok_or_else(|| "write a whole number, optionally with k, M or G".into())
}

/// Parses a time in seconds, which may have a fraction. Returns nanoseconds.
fn span(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.0..=86_400.0).contains(&s) => Ok((s * SECOND as f64) as u64),
        _ => Err("write a number of seconds between 0 and 86400".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_read() {
        assert_eq!(scaled("4M"), Ok(4_000_000));
        assert_eq!(scaled("7"), Ok(7));
        assert!(
            scaled("1.5M").is_err()
                && scaled("-1").is_err()
                && scaled("99999999999999999999G").is_err()
        );
        assert_eq!(span("0.25"), Ok(250_000_000));
        assert!(span("-1").is_err() && span("nan").is_err());
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
