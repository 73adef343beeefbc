//! `weir metrics`: the counters of all sessions for Prometheus, as text or over HTTP.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use weir_control::api::{Readings, SessionView};
use weir_control::client::ClientError;
use weir_control::server::{Exporter, MetricsFormat, Token, session_metrics};
use weir_control::session_client::SessionClient;
use weir_linux::process::Signals;

use crate::output::{Failure, USAGE, print, say};
use crate::sessions::sockets;

/// Options of `weir metrics`.
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
pub(crate) struct MetricsArgs {
    /// Answer `GET /metrics` at this address until a signal ends it, instead of printing once.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// A file with the token that each request must present (`Authorization: Bearer TOKEN`); needed
    /// for an address that other machines reach.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Prints the metrics, or serves them.
pub(crate) fn metrics(args: &MetricsArgs) -> Result<ExitCode, Failure> {
    let Some(address) = args.listen else {
        // Node exporters and `promtool check metrics` read the classic format only.
        return print(&text(MetricsFormat::Classic));
    };
    let token = args.token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|error| Failure::new(USAGE, error))?;
    if token.is_none() && !address.ip().is_loopback() {
        let message = format!(
            "other machines reach {address}: --token-file FILE says which token they must present"
        );
        return Err(Failure::new(USAGE, message));
    }
    // The signals are taken before the first thread starts. A thread that already exists would not
    // block them, and a signal that it receives would kill the process.
    let signals = Signals::take()
        .map_err(|error| Failure::of_weir(format!("cannot take signals: {error}")))?;
    let listener = TcpListener::bind(address)
        .map_err(|error| Failure::of_weir(format!("cannot listen on {address}: {error}")))?;
    let exporter = Exporter::start(listener, token, text)
        .map_err(|error| Failure::of_weir(format!("cannot serve metrics: {error}")))?;
    say(format_args!("weir: metrics at http://{}/metrics\n", exporter.address()));
    wait(&signals)?;
    Ok(ExitCode::SUCCESS)
}

fn wait(signals: &Signals) -> Result<(), Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::of_weir(format!("cannot read signals: {error}"));
    loop {
        let mut ready = [PollFd::new(signals, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(&error)),
        }
        if signals.next().map_err(|error| failed(&error))?.is_some() {
            return Ok(());
        }
    }
}

/// The metrics of all sessions that answer.
fn text(format: MetricsFormat) -> String {
    let read = |path: PathBuf| -> Result<(SessionView, Readings), ClientError> {
        let mut client = SessionClient::new(path, WITHIN)?;
        Ok((client.view()?, client.readings()?))
    };
    // Each session has a thread, so a session that does not answer does not delay the others.
    let threads: Vec<_> = sockets()
        .into_iter()
        .map(|found| std::thread::spawn(move || read(found.path).ok()))
        .collect();
    let answers: Vec<_> =
        threads.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect();
    session_metrics(&answers, format)
}

/// The longest wait for each of a session's two answers. Prometheus waits ten seconds for both.
const WITHIN: Duration = Duration::from_secs(4);
const NOTES: &str = "Examples:
  weir metrics                                  the counters of all sessions, as text
  weir metrics --listen 127.0.0.1:8421          for Prometheus to scrape
  weir metrics > /var/lib/prometheus/node-exporter/weir.prom

The daemon has metrics of its own: `weir serve --http ADDR:PORT`. docs/metrics.md lists all
families, and packaging/grafana has a dashboard.";
