//! `weir top --once`: the table as plain text, for logs and pipes.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::board::{Board, Id, News};
use super::draw::Column;
use super::feed::Feed;
use super::view::View;
use crate::output::{Failure, print, say};
use crate::sessions::running_in_words;
use crate::table::Table;

/// Waits until every source has answered twice or is known not to answer, and prints the table.
pub(super) fn once(feed: &Feed, view: &mut View, period: Duration) -> Result<ExitCode, Failure> {
    let mut board = Board::default();
    let mut awaited: Option<HashSet<Id>> = None;
    let deadline = Instant::now() + PATIENCE + period;
    while awaited.as_ref().is_none_or(|awaited| !awaited.is_empty()) {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(news) = feed.news.recv_timeout(left) else { break };
        match &news {
            News::Found(ids) if awaited.is_none() => {
                // Sources that answered before the list of sources arrived are not awaited.
                let is_awaited = |id: &&Id| {
                    !board.sources.iter().any(|source| {
                        source.id == **id && (source.silent.is_some() || !source.rows.is_empty())
                    })
                };
                awaited = Some(ids.iter().filter(is_awaited).cloned().collect());
            }
            News::Sample { source, activity: Some(_), .. }
            | News::Silent { source, .. }
            | News::Ended { source } => {
                if let Some(awaited) = &mut awaited {
                    awaited.remove(source);
                }
            }
            _ => {}
        }
        board.enter(news);
    }
    if board.sources.is_empty() {
        say(format_args!("weir: {}\n", running_in_words(&[])));
        return Ok(ExitCode::SUCCESS);
    }
    for why in board.sources.iter().filter_map(|source| source.silent.as_ref()) {
        say(format_args!("weir: {why}\n"));
    }
    for source in &board.sources {
        for problem in &source.about.problems {
            say(format_args!("weir: {}: {problem}\n", source.about.name));
        }
    }
    print(&text(view, &board))
}

pub(super) fn text(view: &mut View, board: &Board) -> String {
    view.arrange(board);
    let headings = ["link"].into_iter().chain(Column::ALL.map(Column::heading));
    let mut table = Table::new(headings.chain(["specification"]));
    for place in 0..view.len() {
        let Some((source, row)) = view.row(board, place) else { continue };
        let mut cells = vec![source.label(row)];
        cells.extend(Column::ALL.map(|column| column.value(row)));
        cells.push(source.spec(row).unwrap_or_default().to_owned());
        table.add_row(cells);
    }
    table.text()
}

/// The longest wait for sources, beyond the time between two readings. The feed needs less time to
/// report that a source does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
