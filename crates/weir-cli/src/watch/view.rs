//! The live view: formats the current measurements as lines of text. This module does not access
//! the terminal.

use std::fmt::Write as _;

use weir_probe::measure::{Measured, Recent, Tally};
use weir_report::format::{count, duration, printable};

use super::terminal::Key;

/// A queue as the view shows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) label: String,
    /// Whether the queue still exists.
    pub(super) present: bool,
    /// The maximum length in packets in each of the last periods, the newest period last; 0 in a
    /// period without packets.
    pub(super) recent: Vec<u32>,
    /// The current length in packets. `mean`, `p99` and `max` are statistics of the length.
    pub(super) now: u32,
    pub(super) mean: f64,
    pub(super) p99: u64,
    pub(super) max: u64,
    pub(super) drops_per_second: f64,
}

/// The measurements at one moment, in the form that the view shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Picture {
    /// The line about the rate at which queues are read.
    pub(super) head: String,
    /// Queues in the order in which they appeared.
    pub(super) rows: Vec<Row>,
    /// Lines about transmission rings.
    pub(super) rings: Vec<String>,
    /// The last remarks, the newest last.
    pub(super) remarks: Vec<String>,
}

impl Picture {
    pub(super) fn of(tally: &Tally, head: String) -> Self {
        let ring = |ring: &weir_probe::measure::Ring| {
            let (device, queue) = (&ring.device, ring.queue);
            let (limit, mean, most) = (ring.last_limit, ring.inflight.mean(), ring.inflight.max());
            format!(
                "{device} transmission queue {queue}: limit {} bytes, in flight {mean:.0} on \
                 average, {} at most",
                count(limit),
                count(most)
            )
        };
        let remarks = tally.remarks().iter().rev().take(REMARKS).map(|remark| remark.text.clone());
        let mut remarks: Vec<String> = remarks.collect();
        remarks.reverse();
        Self {
            head,
            rows: tally.queues().iter().map(Row::of).collect(),
            rings: tally.rings().iter().map(ring).collect(),
            remarks,
        }
    }
}

impl Row {
    pub(super) fn of(queue: &Measured) -> Self {
        let packets = queue.packets();
        Self {
            label: queue.queue.label(),
            present: queue.until.is_none(),
            recent: queue
                .recent()
                .iter()
                .map(|period| u32::try_from(period.packets.max()).unwrap_or(u32::MAX))
                .collect(),
            now: if queue.until.is_none() {
                queue.current().map_or(0, |(packets, _)| packets)
            } else {
                0
            },
            mean: packets.mean(),
            p99: packets.quantile(0.99),
            max: packets.max(),
            drops_per_second: queue.recent().drops_per_second(),
        }
    }
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Appearance,
    Now,
    Longest,
    Drops,
}

/// The state of the view, which the user changes with keys.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    order: Order,
    /// The index of the first row that is shown.
    top: usize,
    /// The picture that is shown while the view is paused.
    paused: Option<Picture>,
    /// The number of rows that fitted into the last frame.
    page: usize,
}

impl View {
    /// Handles a key. Returns whether it ends the watch.
    pub(super) fn key(&mut self, key: Key, now: &Picture) -> bool {
        let page = self.page.max(1);
        match key {
            Key::Quit => return true,
            Key::Pause if self.paused.is_some() => self.paused = None,
            Key::Pause => self.paused = Some(now.clone()),
            Key::Sort => {
                self.order = match self.order {
                    Order::Appearance => Order::Now,
                    Order::Now => Order::Longest,
                    Order::Longest => Order::Drops,
                    Order::Drops => Order::Appearance,
                }
            }
            Key::Up => self.top = self.top.saturating_sub(1),
            Key::Down => self.top += 1,
            Key::PageUp => self.top = self.top.saturating_sub(page),
            Key::PageDown => self.top += page,
            Key::Home => self.top = 0,
            Key::End => self.top = usize::MAX / 2,
        }
        false
    }

    /// The lines for a terminal of this size: never more lines than the terminal has rows, and no
    /// line wider than the terminal.
    pub(super) fn frame(
        &mut self,
        now: &Picture,
        (width, height): (usize, usize),
        (keys, colour): (bool, bool),
    ) -> Vec<String> {
        let paused = self.paused.is_some();
        let picture = self.paused.take().unwrap_or_else(|| now.clone());
        let mut below: Vec<String> = picture.rings.iter().take(RINGS).cloned().collect();
        below.extend(picture.remarks.iter().map(|remark| format!("· {remark}")));
        if keys {
            below.push(format!(
                "q end   p {}   ↑↓ scroll   s sort: {}",
                if paused { "go on" } else { "pause" },
                self.order.name()
            ));
        }
        // Rows take precedence over remarks.
        below.drain(..below.len().saturating_sub(1).min(below.len().saturating_sub(height / 3)));
        let room = height.saturating_sub(2 + below.len()).max(1);
        let rows = self.order.sorted(&picture.rows);
        self.page = room;
        self.top = self.top.min(rows.len().saturating_sub(room));
        let shown = &rows[self.top..rows.len().min(self.top + room)];
        let columns = Columns::fitting(shown, width);
        let mut lines = vec![
            styled(&cut(&picture.head, width), BOLD, colour),
            styled(&cut(&columns.head(), width), DIM, colour),
        ];
        for row in shown {
            let style = if row.present { "" } else { DIM };
            lines.push(styled(&cut(&columns.line(row), width), style, colour));
        }
        let hidden = rows.len() - shown.len();
        if hidden > 0
            && let Some(line) = lines.last_mut()
        {
            *line = styled(
                &cut(&format!("… {} of {} queues are not shown", hidden + 1, rows.len()), width),
                DIM,
                colour,
            );
        }
        lines.resize(height.saturating_sub(below.len()).max(lines.len()), String::new());
        lines.extend(below.iter().map(|line| styled(&cut(line, width), DIM, colour)));
        lines.truncate(height);
        if paused {
            self.paused = Some(picture);
        }
        lines
    }
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Appearance => "as they appeared",
            Order::Now => "now",
            Order::Longest => "max",
            Order::Drops => "drops/s",
        }
    }

    fn sorted(self, rows: &[Row]) -> Vec<&Row> {
        let mut rows: Vec<&Row> = rows.iter().collect();
        match self {
            // In every order, queues that have vanished come last.
            Order::Appearance => rows.sort_by_key(|row| !row.present),
            Order::Now => rows.sort_by_key(|row| (!row.present, u32::MAX - row.now)),
            Order::Longest => rows.sort_by_key(|row| (!row.present, u64::MAX - row.max)),
            Order::Drops => rows.sort_by(|a, b| {
                (!a.present, b.drops_per_second)
                    .partial_cmp(&(!b.present, a.drops_per_second))
                    .unwrap_or(std::cmp::Ordering::Equal)
            }),
        }
        rows
    }
}

/// The widths of the columns.
#[derive(Clone, Copy, Debug)]
struct Columns {
    label: usize,
    /// The bars of the recent lengths.
    spark: usize,
}

impl Columns {
    fn fitting(rows: &[&Row], width: usize) -> Self {
        let widest =
            rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0).max("queue".len());
        let label = widest.min((width / 3).max(16));
        Self { label, spark: width.saturating_sub(label + VALUE_COLUMNS + 2).min(Recent::KEPT) }
    }

    fn head(self) -> String {
        let Self { label, spark } = self;
        let seconds = spark as f64 * Recent::WIDTH as f64 / 1e9;
        let spark_head = cut(&format!("last {seconds:.0} s"), spark);
        let mut line = format!("{:<label$} {:<spark$} ", "queue", spark_head);
        for name in ["now", "mean", "p99", "max", "drops/s"] {
            let _ = write!(line, " {name:>8}");
        }
        line
    }

    fn line(self, row: &Row) -> String {
        let Self { label, spark } = self;
        let mut line = format!(
            "{:<label$} {:>spark$} ",
            cut(&row.label, label),
            sparkline(&row.recent, spark)
        );
        let drops = if row.drops_per_second >= 10.0 {
            format!("{:.0}", row.drops_per_second)
        } else {
            format!("{:.1}", row.drops_per_second)
        };
        let drops = if row.drops_per_second > 0.0 { drops } else { "0".to_owned() };
        for value in [
            row.now.to_string(),
            format!("{:.1}", row.mean),
            row.p99.to_string(),
            row.max.to_string(),
            drops,
        ] {
            let _ = write!(line, " {value:>8}");
        }
        line
    }
}

/// The last `width` values as bars, relative to the largest of them. A value above zero always gets
/// a visible bar.
fn sparkline(values: &[u32], width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(width)..];
    let most = u64::from(shown.iter().copied().max().unwrap_or(0).max(1));
    let bar = |&value: &u32| match u64::from(value) {
        0 => BARS[0],
        value => BARS[(value * 7).div_ceil(most).clamp(1, 7) as usize],
    };
    shown.iter().map(bar).collect()
}

/// The line that is printed if there is no view, without control characters.
pub(super) fn line(picture: &Picture) -> String {
    printable(&full_line(picture)).into_owned()
}

fn full_line(picture: &Picture) -> String {
    let mut line = picture.head.clone();
    let present: Vec<&Row> = picture.rows.iter().filter(|row| row.present).collect();
    for row in present.iter().take(LINE_QUEUES) {
        let _ = write!(
            line,
            "; {} {} now, {} at most, {:.0} drops/s",
            row.label, row.now, row.max, row.drops_per_second
        );
    }
    if present.len() > LINE_QUEUES {
        let _ = write!(line, "; and {} queues more", present.len() - LINE_QUEUES);
    }
    line
}

/// The text without control characters, cut to at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    let text = &*printable(text);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

fn styled(text: &str, style: &str, colour: bool) -> String {
    if colour && !style.is_empty() { format!("{style}{text}\x1b[0m") } else { text.to_owned() }
}

/// A gap between readings as text.
pub(super) fn gap(ns: u64) -> String {
    duration(ns as f64)
}

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
/// Width of the columns that contain numbers.
const VALUE_COLUMNS: usize = 5 * 9;
/// Maximum number of remarks that are shown.
const REMARKS: usize = 5;
/// Maximum number of transmission rings that are shown.
const RINGS: usize = 4;
/// Maximum number of queues in a line.
const LINE_QUEUES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, now: u32) -> Row {
        Row {
            label: label.into(),
            present: true,
            recent: vec![0, 1, now],
            now,
            mean: 1.5,
            p99: 9,
            max: 10,
            drops_per_second: 0.0,
        }
    }

    fn picture(rows: usize) -> Picture {
        let rows = (0..rows).map(|n| row(&format!("eth{n} tbf 8001:"), n as u32)).collect();
        Picture {
            head: "loop, 12 M/s".into(),
            rows,
            rings: vec!["ring".into()],
            remarks: vec!["eth9 is gone".into(); 5],
        }
    }

    #[test]
    fn a_frame_fits_every_terminal() {
        for (width, height) in [(80, 24), (200, 60), (40, 10), (20, 5), (1, 1), (10, 2)] {
            for rows in [0, 1, 7, 500] {
                let lines = View::default().frame(&picture(rows), (width, height), (true, false));
                assert!(lines.len() <= height, "{} lines on {height}", lines.len());
                assert!(
                    lines.iter().all(|line| line.chars().count() <= width),
                    "{width}: {lines:#?}"
                );
            }
        }
    }

    #[test]
    fn keys_scroll_sort_and_pause() {
        let (mut view, all) = (View::default(), picture(100));
        let first =
            |view: &mut View, now: &Picture| view.frame(now, (100, 20), (true, false))[2].clone();
        assert!(first(&mut view, &all).starts_with("eth0 "));
        view.key(Key::PageDown, &all);
        assert!(!first(&mut view, &all).starts_with("eth0 "));
        view.key(Key::End, &all);
        view.key(Key::Home, &all);
        view.key(Key::Sort, &all);
        assert!(first(&mut view, &all).starts_with("eth99 "));
        view.key(Key::Pause, &all);
        assert!(
            first(&mut view, &picture(3)).starts_with("eth99 "),
            "a paused view keeps its rows"
        );
        view.key(Key::Pause, &all);
        assert!(first(&mut view, &picture(3)).starts_with("eth2 "));
        assert!(view.key(Key::Quit, &all));
    }

    #[test]
    fn names_do_not_control_the_terminal() {
        let mut view = View::default();
        let hostile = Picture {
            head: "weir\x1b]0;title\x07".into(),
            rows: vec![row("eth\x1b[2J0", 3)],
            rings: vec!["eth\x1b[H0 ring".into()],
            remarks: vec!["gone:\x1bc\r".into()],
        };
        for colour in [false, true] {
            let lines = view.frame(&hostile, (100, 30), (true, colour)).join("\n");
            let ours = lines.replace(BOLD, "").replace(DIM, "").replace("\x1b[0m", "");
            assert!(!ours.contains(|c: char| c.is_control() && c != '\n'), "{ours:?}");
            assert!(ours.contains("eth·[2J0"), "{ours}");
        }
        assert!(!line(&hostile).contains(char::is_control), "{:?}", line(&hostile));
    }

    #[test]
    fn bars_show_the_newest_and_never_hide_a_packet() {
        assert_eq!(sparkline(&[9, 9, 0, 1, 1000, 1000], 4), "▁▂██");
        assert_eq!(sparkline(&[], 4), "");
        assert_eq!(sparkline(&[0, 0], 4), "▁▁");
    }
}
