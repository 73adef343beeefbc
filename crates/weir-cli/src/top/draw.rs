//! Draws the view into a frame: arranges all rows of the board, and formats only those that fit on
//! the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use weir_report::format::printable;

use super::activity::{Delay, Kind};
use super::bars;
use super::board::{Board, History, KEPT, Row, Source};
use super::view::{Line, Mode, Order, View};
use super::words::{delay, number, rate, short, time};

/// How a frame is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Whether colours are allowed.
    pub(super) colour: bool,
    /// Seconds between two readings.
    pub(super) period: f64,
}

/// Draws a frame. Returns the position of the cursor while the user writes a line.
pub(super) fn draw(
    buffer: &mut Buffer,
    view: &mut View,
    live: &Board,
    look: Look,
) -> Option<Position> {
    let paused = view.paused.clone();
    let board = paused.as_deref().unwrap_or(live);
    view.arrange(board);
    let mut pen = Pen { buffer, look };
    let area = pen.buffer.area;
    if area.width < 20 || area.height < 5 {
        pen.text(area.x, area.y, area.width, "weir top: too small", PLAIN);
        return None;
    }
    pen.screen(view, board, paused.is_some())
}

/// Writes the parts of the view into a frame.
struct Pen<'a> {
    buffer: &'a mut Buffer,
    look: Look,
}

/// A plot: its name, the function that formats a value, and the values.
type Curve<'a> = (&'a str, fn(f64) -> String, &'a History);

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const PLAIN: Style = Style::new();

impl Pen<'_> {
    /// Writes a text without control characters, cut to `width` columns. Returns the column after
    /// the text.
    fn text(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        if y >= self.buffer.area.bottom() || x >= self.buffer.area.right() {
            return x;
        }
        let width = width.min(self.buffer.area.right() - x);
        let text = printable(text);
        let fits = text.chars().count() <= usize::from(width);
        let (end, _) = self.buffer.set_stringn(x, y, &text, width.into(), style);
        if !fits && width > 0 && end >= x + width {
            self.buffer.set_stringn(x + width - 1, y, "…", 1, style);
        }
        end
    }

    /// Writes a text that ends before `right`.
    fn right(&mut self, right: u16, y: u16, width: u16, text: &str, style: Style) {
        let length = (text.chars().count() as u16).min(width);
        self.text(right.saturating_sub(length), y, length, text, style);
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.look.colour { Style::new().fg(colour) } else { PLAIN }
    }

    fn screen(&mut self, view: &mut View, board: &Board, paused: bool) -> Option<Position> {
        let area = self.buffer.area;
        let (left, width) = (area.x, area.width);
        let mut y = area.y + self.head(view, board, paused);
        for problem in problems(board).into_iter().take(PROBLEMS) {
            let style = self.coloured(Color::Red).add_modifier(Modifier::BOLD);
            self.text(left, y, width, &format!("! {problem}"), style);
            y += 1;
        }
        let foot = self.foot(view, area);
        let body = Rect { y, height: foot.0.saturating_sub(y), ..area };
        match &view.mode {
            Mode::Help => self.help(body),
            Mode::Detail => self.detail(view, board, body),
            Mode::Change { detail: true, .. } | Mode::Confirm { detail: true, .. } => {
                self.detail(view, board, body);
            }
            _ => self.list(view, board, body),
        }
        foot.1
    }

    /// Draws the lines at the top. Returns their number.
    fn head(&mut self, view: &View, board: &Board, paused: bool) -> u16 {
        let area = self.buffer.area;
        let (links, objects) = board.counts();
        let sessions = board.sources.iter().filter(|source| !source.about.daemon).count();
        let many = |n: usize, one: &str| {
            format!("{} {one}{}", number(n as u64), if n == 1 { "" } else { "s" })
        };
        let mut words = vec![format!("{} of {}", many(links, "link"), many(sessions, "session"))];
        if board.sources.iter().any(|source| source.about.daemon) {
            words.push(format!("daemon: {}", many(objects, "row")));
        }
        let x = self.text(area.x, area.y, area.width, "weir top", BOLD);
        let x = self.text(x + 2, area.y, area.width, &words.join(", "), PLAIN);
        if paused {
            let style = BOLD.add_modifier(Modifier::REVERSED);
            self.text(x + 2, area.y, area.width, " paused ", style);
        }
        let arrow = if (view.order == Order::Name) == view.reversed { "▼" } else { "▲" };
        let order = format!("sort {} {arrow}", view.order.word());
        self.right(area.right(), area.y, 24, &order, DIM);
        if view.filter.is_empty() || matches!(view.mode, Mode::Filter(_)) {
            return 1;
        }
        let all = links + objects;
        let shown = format!("filter {}: {} of {}", view.filter, view.len(), all);
        self.text(area.x, area.y + 1, area.width, &shown, DIM);
        2
    }

    /// Draws the lines at the bottom. Returns the row of the first line, and the position of the
    /// cursor.
    fn foot(&mut self, view: &View, area: Rect) -> (u16, Option<Position>) {
        let last = area.bottom() - 1;
        let keys = |pen: &mut Self, words: &str| {
            pen.text(area.x, last, area.width, words, DIM);
        };
        match &view.mode {
            Mode::Filter(line) => {
                keys(
                    self,
                    "Enter keep  Esc clear  all words must occur in name, program or specification",
                );
                let cursor = self.line(area, last - 1, "filter: ", line);
                (last - 1, Some(cursor))
            }
            Mode::Change { target, line, verdict, .. } => {
                keys(self, if verdict.allowed { "Enter apply   Esc leave" } else { "Esc leave" });
                let style = if verdict.allowed { DIM } else { self.coloured(Color::Red) };
                let words = match (verdict.allowed, verdict.words.as_str()) {
                    (true, "") => "checked: Enter applies it",
                    (_, words) => words,
                };
                let rows = self.wrapped(area, last, words, style);
                let y = last - rows - 1;
                let cursor = self.line(area, y, &format!("{}: ", target.label), line);
                (y, Some(cursor))
            }
            Mode::Confirm { key, .. } => {
                let words = format!("reset {} to its initial configuration? y/n", key.name);
                self.text(area.x, last, area.width, &words, BOLD);
                (last, None)
            }
            mode => {
                keys(
                    self,
                    match mode {
                        Mode::Help => "any key goes back",
                        Mode::Detail => {
                            "Esc back  ↑↓ other rows  c change  r reset  p pause  ? help"
                        }
                        _ => KEYS,
                    },
                );
                if view.message.is_empty() {
                    return (last, None);
                }
                let rows = self.wrapped(area, last, &view.message, BOLD);
                (last - rows, None)
            }
        }
    }

    /// Writes words in up to three lines above `bottom`. Returns the number of lines.
    fn wrapped(&mut self, area: Rect, bottom: u16, words: &str, style: Style) -> u16 {
        let lines = wrap(&printable(&words.replace('\n', " ")), usize::from(area.width));
        let most = usize::from((area.height / 3).clamp(1, 3));
        let count = lines.len().min(most) as u16;
        for (n, line) in lines.iter().take(most).enumerate() {
            self.text(area.x, bottom - count + n as u16, area.width, line, style);
        }
        count
    }

    /// Draws the line that the user writes. Returns the position of the cursor.
    fn line(&mut self, area: Rect, y: u16, lead: &str, line: &Line) -> Position {
        let lead = printable(lead).into_owned();
        let lead = lead.chars().take(usize::from(area.width / 2)).collect::<String>();
        let x = self.text(area.x, y, area.width, &lead, BOLD);
        let room = usize::from(area.right().saturating_sub(x)).max(1);
        // `skip` keeps the cursor visible.
        let skip = (line.at + 1).saturating_sub(room);
        let shown: String = line.text.chars().skip(skip).take(room).collect();
        self.text(x, y, room as u16, &shown, PLAIN);
        Position { x: x + (line.at - skip) as u16, y }
    }

    fn list(&mut self, view: &mut View, board: &Board, area: Rect) {
        if area.height < 2 {
            return;
        }
        let room = usize::from(area.height - 1);
        let place = view.place(board);
        view.page = room;
        view.top = view.top.min(view.len().saturating_sub(room));
        if place < view.top {
            view.top = place;
        } else if place >= view.top + room {
            view.top = place + 1 - room;
        }
        let shown: Vec<(usize, &Source, &Row)> = (view.top..view.len().min(view.top + room))
            .filter_map(|n| view.row(board, n).map(|(source, row)| (n, source, row)))
            .collect();
        let columns = Columns::fitting(area.width, &shown);
        self.headings(area, &columns);
        for (line, (n, source, row)) in shown.iter().enumerate() {
            let y = area.y + 1 + line as u16;
            self.row(area, y, &columns, (source, row), *n == place);
        }
        if view.len() == 0 {
            let words = if board.sources.is_empty() {
                "no links run: `weir run`, `pair`, `bridge`, `live`, `attach` and `serve` start some"
            } else if view.filter.is_empty() {
                "no links yet"
            } else {
                "no row matches the filter"
            };
            self.text(area.x + 2, area.y + 2, area.width, words, DIM);
        }
    }

    fn headings(&mut self, area: Rect, columns: &Columns) {
        let style = BOLD;
        self.text(area.x + 2, area.y, columns.name, "link", style);
        if columns.spec > 0 {
            self.text(columns.spec_at(area), area.y, columns.spec, "specification", style);
        }
        if columns.spark > 0 {
            let mut past = format!("carried, {:.0} s", KEPT as f64 * self.look.period);
            if past.len() > usize::from(columns.spark) {
                past.truncate("carried".len());
            }
            self.text(columns.spark_at(area), area.y, columns.spark, &past, style);
        }
        let mut right = area.right();
        for column in columns.values.iter().rev() {
            self.right(right, area.y, column.width(), column.heading(), style);
            right = right.saturating_sub(column.width() + 1);
        }
    }

    fn row(
        &mut self,
        area: Rect,
        y: u16,
        columns: &Columns,
        (source, row): (&Source, &Row),
        selected: bool,
    ) {
        let base = if source.silent.is_some() { DIM } else { PLAIN };
        if selected {
            self.text(area.x, y, 1, ">", BOLD);
        }
        let name = if selected { base.patch(BOLD) } else { base };
        self.text(area.x + 2, y, columns.name, &source.label(row), name);
        if columns.spec > 0 {
            let spec = source.spec(row).unwrap_or_default();
            self.text(columns.spec_at(area), y, columns.spec, spec, DIM);
        }
        if columns.spark > 0 {
            let past = squeezed(&row.carried, columns.spark);
            let style = base.patch(self.coloured(Color::Cyan));
            let line = bars::line(&past);
            // The newest value is at the right.
            let at = columns.spark - past.len() as u16;
            self.text(columns.spark_at(area) + at, y, columns.spark, &line, style);
        }
        let mut right = area.right();
        for column in columns.values.iter().rev() {
            let style = base.patch(self.style(*column, row));
            self.right(right, y, column.width(), &column.value(row), style);
            right = right.saturating_sub(column.width() + 1);
        }
        if selected {
            let line = Rect { y, height: 1, ..area };
            self.buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// The style of a value. A colour only repeats what the value shows.
    fn style(&self, column: Column, row: &Row) -> Style {
        match column {
            Column::Drops if row.activity.drops > 0.0 => self.coloured(Color::Red),
            Column::Late if row.activity.late_ns().is_some_and(|ns| ns >= LATE_NS) => {
                self.coloured(Color::Yellow)
            }
            _ => PLAIN,
        }
    }

    fn detail(&mut self, view: &View, board: &Board, area: Rect) {
        let Some((source, row)) = view.chosen(board) else {
            self.text(area.x, area.y, area.width, "this row is gone; Esc goes back", DIM);
            return;
        };
        let activity = &row.activity;
        let mut y = area.y;
        let about = &source.about;
        let mut command = format!("weir {}", about.kind);
        if about.pid > 0 {
            command = format!("{command}, process {}", about.pid);
        }
        if !about.program.is_empty() {
            command = format!("{command}: {}", about.program);
        }
        let x = self.text(area.x, y, area.width, &source.label(row), BOLD);
        self.text(x + 2, y, area.width, &command, DIM);
        y += 1;
        let spec = match source.spec(row) {
            Some("") => "a perfect link",
            Some(spec) => spec,
            None if about.rules && activity.kind == Kind::Link => "by rules",
            None => "",
        };
        self.text(area.x, y, area.width, spec, PLAIN);
        y += 1;
        let detail = board.detail.as_ref().filter(|(key, _)| Some(key) == view.selected.as_ref());
        for line in facts(row, detail.map(|(_, detail)| detail)) {
            self.text(area.x, y, area.width, &line, PLAIN);
            y += 1;
        }
        let below = drops_and_instances(row, detail.map(|(_, detail)| detail));
        let room = area.bottom().saturating_sub(y);
        // The plots get the rows that the lines below do not need, and at least half of the rows.
        let lines = (below.len() as u16).min(room / 2);
        let plots = room - lines;
        let each = (plots / 3).min(MOST_PLOT);
        if each >= 2 {
            let packets = |value: f64| format!("{} packets", short(value));
            let curves: [Curve<'_>; 3] = [
                ("offered", rate, &row.offered),
                ("carried", rate, &row.carried),
                ("inside", packets, &row.inside),
            ];
            for (name, words, history) in curves {
                if name == "carried" && activity.carried.is_none() {
                    continue;
                }
                self.plot(Rect { y, height: each, ..area }, name, words, history);
                y += each;
            }
        }
        for line in below.iter().take(usize::from(area.bottom().saturating_sub(y))) {
            self.text(area.x, y, area.width, line, PLAIN);
            y += 1;
        }
    }

    fn plot(&mut self, area: Rect, name: &str, words: fn(f64) -> String, history: &History) {
        let past = squeezed(history, area.width);
        let now = history.values().last().unwrap_or(0.0);
        let seconds = history.values().len() as f64 * self.look.period;
        let title = format!(
            "{name}: {} now, at most {} in {seconds:.0} s",
            words(now.into()),
            words(history.peak().into())
        );
        self.text(area.x, area.y, area.width, &title, DIM);
        let rows = bars::rows(&past, history.peak(), usize::from(area.height - 1));
        let x = area.right() - past.len() as u16;
        let style = self.coloured(Color::Cyan);
        for (n, line) in rows.iter().enumerate() {
            self.text(x, area.y + 1 + n as u16, area.width, line, style);
        }
    }

    fn help(&mut self, area: Rect) {
        for (n, line) in HELP.iter().enumerate().take(area.height.into()) {
            let style = if line.starts_with(' ') { PLAIN } else { BOLD };
            self.text(area.x, area.y + n as u16, area.width, line, style);
        }
    }
}

/// The problems of the sources, a sentence each; at most [`PROBLEMS`] sentences.
fn problems(board: &Board) -> Vec<String> {
    let mut problems = Vec::new();
    for source in &board.sources {
        problems.extend(source.silent.clone());
        let of = |problem: &String| format!("{}: {problem}", source.about.name);
        problems.extend(source.about.problems.iter().map(of));
    }
    if problems.len() > PROBLEMS {
        let more = problems.len() - PROBLEMS + 1;
        problems.truncate(PROBLEMS - 1);
        problems.push(format!("and {more} more problems; `weir ps` lists them"));
    }
    problems
}

/// The statistics of a row in full words.
fn facts(row: &Row, detail: Option<&super::board::Detail>) -> Vec<String> {
    let activity = &row.activity;
    let [arrived, departed] = activity.packets;
    let mut lines = vec![format!(
        "offered {:>11}  carried {:>11}  packets in {}, out {}",
        rate(activity.offered),
        activity.carried.map_or("-".to_owned(), rate),
        number(arrived),
        number(departed),
    )];
    match activity.delay {
        Delay::Measured(queue) => lines.push(format!(
            "queued: median {}, 99 % within {}",
            time(queue.p50 as f64),
            time(queue.p99 as f64)
        )),
        Delay::Estimated(ns) => {
            lines.push(format!("the queue needs {} to empty at this rate", time(ns)));
        }
        Delay::Unknown => {}
    }
    if let Some(late) = activity.late.filter(|late| late.count > 0) {
        let (median, most) = (time(late.p50 as f64), time(late.p99 as f64));
        lines.push(format!("late: median {median}, 99 % within {most}"));
    }
    if let Some(detail) = detail {
        let mut more: Vec<String> =
            detail.lines.iter().map(|(name, value)| format!("{name} {value}")).collect();
        if let Some(queue) = detail.delay {
            more.push(format!(
                "queued since the start: median {}, 99 % within {}",
                time(queue.p50 as f64),
                time(queue.p99 as f64)
            ));
        }
        if !more.is_empty() {
            lines.push(more.join("   "));
        }
    }
    lines
}

fn drops_and_instances(row: &Row, detail: Option<&super::board::Detail>) -> Vec<String> {
    let mut lines = Vec::new();
    let (reasons, when) = match detail {
        Some(detail) => (&detail.reasons, "since the start"),
        None => (&row.activity.reasons, "in the last reading"),
    };
    let words: Vec<String> =
        reasons.iter().map(|(reason, count)| format!("{reason} {}", number(*count))).collect();
    let words = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    lines.push(format!("drops {when}: {words}"));
    if let Some(detail) = detail.filter(|detail| detail.total > 0) {
        lines.push(format!("{} instances of the mask", number(detail.total)));
        for (key, waiting, bytes, drops) in &detail.instances {
            lines.push(format!(
                "  {key}: {} packets wait, {}B arrived, {} dropped",
                number(*waiting),
                short(*bytes as f64),
                number(*drops)
            ));
        }
    }
    lines
}

fn squeezed(history: &History, width: u16) -> Vec<f32> {
    bars::squeezed(history.values(), history.count, KEPT, width.into())
}

/// Divides words into lines of at most `width` characters.
fn wrap(words: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        let line = lines.len() - 1;
        let used = lines[line].chars().count();
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if used > 0 {
                lines[line].push(' ');
            }
            lines[line].push_str(word);
        }
    }
    lines
}

/// A column with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Offered,
    Carried,
    Queue,
    Delay,
    Drops,
    Late,
}

impl Column {
    pub(super) const ALL: [Self; 6] =
        [Self::Offered, Self::Carried, Self::Queue, Self::Delay, Self::Drops, Self::Late];

    pub(super) const fn heading(self) -> &'static str {
        match self {
            Self::Offered => "in bit/s",
            Self::Carried => "out bit/s",
            Self::Queue => "queue",
            Self::Delay => "delay",
            Self::Drops => "drops/s",
            Self::Late => "late",
        }
    }

    const fn width(self) -> u16 {
        match self {
            Self::Offered => 8,
            Self::Carried => 9,
            Self::Queue => 7,
            Self::Delay | Self::Late => 8,
            Self::Drops => 7,
        }
    }

    pub(super) fn value(self, row: &Row) -> String {
        let activity = &row.activity;
        match self {
            Self::Offered => short(activity.offered),
            Self::Carried => activity.carried.map_or("-".to_owned(), short),
            Self::Queue => number(activity.inside),
            Self::Delay => delay(&activity.delay),
            Self::Drops => short(activity.drops),
            Self::Late => activity.late_ns().map_or("-".to_owned(), time),
        }
    }
}

/// The widths of the first columns, and the columns of values that fit. A width of 0 omits the
/// column.
struct Columns {
    name: u16,
    spec: u16,
    /// The bars of the rate of departures.
    spark: u16,
    values: Vec<Column>,
}

impl Columns {
    fn fitting(width: u16, shown: &[(usize, &Source, &Row)]) -> Self {
        let mut values = Column::ALL.to_vec();
        let used =
            |values: &[Column]| values.iter().map(|column| column.width() + 1).sum::<u16>() + 2;
        // The mark of the selection takes two columns, and names take at least ten.
        while values.len() > 1 && used(&values) + 10 > width {
            values.pop();
        }
        let rest = width.saturating_sub(used(&values));
        let widest = shown.iter().map(|(_, source, row)| source.label(row).chars().count()).max();
        let widest = widest.unwrap_or(0).clamp(8, 40) as u16;
        let name = widest.min(rest.max(18) - if rest > 24 { 9 } else { 0 }).min(rest);
        let mut rest = rest - name;
        let specs = shown.iter().filter_map(|(_, source, row)| source.spec(row));
        let specs = specs.map(|spec| spec.chars().count()).max().unwrap_or(0) as u16;
        let spec = if rest > 40 { specs.max(13).min(rest - 26) } else { 0 };
        rest -= if spec > 0 { spec + 1 } else { 0 };
        let spark = rest.saturating_sub(1).min(KEPT as u16);
        Self { name, spec, spark: if spark < 4 { 0 } else { spark }, values }
    }

    fn spec_at(&self, area: Rect) -> u16 {
        area.x + 2 + self.name + 1
    }

    fn spark_at(&self, area: Rect) -> u16 {
        self.spec_at(area) + if self.spec > 0 { self.spec + 1 } else { 0 }
    }
}

/// Maximum number of problems that are shown above the rows.
const PROBLEMS: usize = 2;
/// Maximum number of rows of a plot, with its title.
const MOST_PLOT: u16 = 8;
/// The least lateness that is shown in colour, in ns: the same as in the reports.
const LATE_NS: f64 = weir_report::LATE_NS as f64;
const KEYS: &str = "q end  ↑↓ select  Enter more  / filter  s sort  c change  p pause  ? help";
const HELP: &[&str] = &[
    "Keys",
    "  ↑ ↓ k j, PgUp PgDn, Home End g G   select a row",
    "  Enter, Esc                         one row in detail, and back",
    "  /                                  filter by words; Esc clears",
    "  s, S                               sort by the next column; reverse the order",
    "  c                                  change the row; checked while you write",
    "  r                                  reset a link to its initial configuration",
    "  p, space                           pause what is shown; readings go on",
    "  ^Z, q                              suspend; end",
    "Columns",
    "  in, out bit/s   arrivals and departures, means over a reading",
    "  queue           packets inside; for a link also those on the way",
    "  delay           99 % of the packets were queued no longer;",
    "                  with ~ the queue's bytes over the rate of departures",
    "  drops/s         packets dropped, whatever the reason",
    "  late            99 % departed no later than this after they were due",
    "Bars are relative to the greatest value; a bar shows the peak of its interval.",
];
