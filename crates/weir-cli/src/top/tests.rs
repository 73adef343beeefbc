//! Tests of the view's frames. `fixtures/` has recorded answers of a real session and a real
//! daemon.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde::Deserialize;
use weir_control::api::{Health, LengthsView, Readings, SessionView};

use super::activity::{Activity, Kind, of_daemon, of_session};
use super::board::{About, Board, News};
use super::draw::{Look, draw};
use super::feed::{DAEMON, of_view, specs};
use super::once::text;
use super::view::{Act, Mode, Order, View};

/// The recorded answers of a session: its description, and readings one second apart.
#[derive(Deserialize)]
struct RealSession {
    view: SessionView,
    readings: Vec<Readings>,
}

/// The recorded answers of a daemon.
#[derive(Deserialize)]
struct RealDaemon {
    health: Health,
    script: String,
    lengths: Vec<LengthsView>,
}

fn real_board() -> Board {
    let mut board = Board::default();
    let session: RealSession =
        serde_json::from_str(include_str!("fixtures/session.json")).expect("a session's answers");
    for pair in session.readings.windows(2) {
        let activity = of_session(&pair[0], &pair[1], false);
        enter(&mut board, of_view(&session.view), activity);
    }
    let daemon: RealDaemon =
        serde_json::from_str(include_str!("fixtures/daemon.json")).expect("a daemon's answers");
    let about = About {
        name: DAEMON.to_owned(),
        kind: DAEMON.to_owned(),
        program: "sl,sr".to_owned(),
        rules: true,
        daemon: true,
        specs: specs(&daemon.script).into(),
        problems: daemon.health.problems,
        ..About::default()
    };
    for pair in daemon.lengths.windows(2) {
        enter(&mut board, about.clone(), of_daemon(&pair[0], &pair[1]));
    }
    board
}

fn enter(board: &mut Board, about: About, activity: Vec<Activity>) {
    let source = about.name.as_str().into();
    board.enter(News::Sample { source, about, activity: Some(activity) });
}

fn many(rows: usize) -> Board {
    let mut board = Board::default();
    let about = About { name: DAEMON.to_owned(), daemon: true, ..About::default() };
    let activity = |n: usize| super::board::example(Kind::Pipe, &n.to_string(), n as f64 * 1000.0);
    for _ in 0..3 {
        enter(&mut board, about.clone(), (1..=rows).map(activity).collect());
    }
    board
}

const LOOK: Look = Look { colour: false, period: 1.0 };

fn frame(view: &mut View, board: &Board, (width, height): (u16, u16), look: Look) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| {
            let cursor = draw(frame.buffer_mut(), view, board, look);
            cursor.into_iter().for_each(|at| frame.set_cursor_position(at));
        })
        .expect("it is drawn");
    terminal.backend().clone()
}

fn shown(view: &mut View, board: &Board, size: (u16, u16)) -> String {
    let buffer = frame(view, board, size, LOOK).buffer().clone();
    let line = |y: u16| -> String {
        (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned()
    };
    (0..size.1).map(|y| line(y) + "\n").collect()
}

fn press(view: &mut View, board: &Board, keys: &str) -> Act {
    let mut last = Act::Nothing;
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '⇟' => KeyCode::PageDown,
            '⌫' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        last = view.key(KeyEvent::new(code, KeyModifiers::NONE), board);
    }
    last
}

fn list() -> View {
    View::new(Order::Name, "")
}

#[test]
fn the_list_at_80_by_24() {
    insta::assert_snapshot!(shown(&mut list(), &real_board(), (80, 24)));
}

#[test]
fn the_list_on_a_wide_terminal() {
    insta::assert_snapshot!(shown(&mut list(), &real_board(), (150, 16)));
}

#[test]
fn a_link_in_detail() {
    let (mut view, board) = (list(), real_board());
    press(&mut view, &board, "\n");
    insta::assert_snapshot!(shown(&mut view, &board, (80, 24)));
}

#[test]
fn the_help() {
    let (mut view, board) = (list(), real_board());
    press(&mut view, &board, "?");
    insta::assert_snapshot!(shown(&mut view, &board, (80, 24)));
    press(&mut view, &board, "x");
    assert_eq!(view.mode, Mode::List);
}

#[test]
fn once_prints_every_row_as_plain_text() {
    insta::assert_snapshot!(text(&mut list(), &real_board()));
}

#[test]
fn a_change_is_checked_before_it_is_sent() {
    let (mut view, board) = (list(), real_board());
    press(&mut view, &board, "/to-left\n");
    press(&mut view, &board, "c");
    let Mode::Change { line, verdict, .. } = view.mode.clone() else { panic!("{:?}", view.mode) };
    assert!(line.text.contains("bw ") && verdict.allowed, "{line:?}");
    let wrong = press(&mut view, &board, " dely 20ms\n");
    assert_eq!(wrong, Act::Nothing);
    let text = shown(&mut view, &board, (80, 24));
    assert!(text.contains("`dely`") && text.contains("did you mean"), "{text}");
    assert!(!text.contains("Enter apply"), "{text}");
    // A repeated keyword is refused, too: the line still has the old `delay`.
    assert_eq!(press(&mut view, &board, &("⌫".repeat(10) + " delay 33ms\n")), Act::Nothing);
    let act = press(&mut view, &board, &("⌫".repeat(80) + "delay 33ms\n"));
    let Act::Change(target, words) = act else { panic!("{act:?}") };
    assert_eq!(target.link.as_deref(), Some("to-left"));
    assert_eq!(words, "delay 33ms");
    // A pipe is changed by its command.
    press(&mut view, &board, "\x1b/pipe\nc");
    let Mode::Change { line, .. } = &view.mode else { panic!("{:?}", view.mode) };
    assert!(line.text.starts_with("pipe 1 config bw "), "{line:?}");
    press(&mut view, &board, "\x1b");
    assert_eq!(view.mode, Mode::List);
}

#[test]
fn the_view_is_drawn_at_every_size() {
    let board = real_board();
    for keys in ["", "\n", "?", "c", "/x", "sss", "p"] {
        for size in [(80, 24), (200, 60), (60, 12), (40, 10), (20, 5), (10, 3), (1, 1), (300, 7)] {
            let mut view = list();
            press(&mut view, &board, keys);
            frame(&mut view, &board, size, LOOK);
        }
    }
    shown(&mut list(), &Board::default(), (80, 24));
}

#[test]
fn rows_are_sorted_filtered_and_selected() {
    let (mut view, board) = (list(), many(50));
    press(&mut view, &board, "ss");
    assert_eq!(view.order, Order::Carried);
    let text = shown(&mut view, &board, (80, 24));
    assert!(text.contains("> pipe 50 "), "{text}");
    press(&mut view, &board, "↓↓");
    assert!(shown(&mut view, &board, (80, 24)).contains("> pipe 48 "));
    press(&mut view, &board, "S");
    assert!(shown(&mut view, &board, (80, 24)).contains("> pipe 48 "), "the row stays selected");
    press(&mut view, &board, "/pipe 17\n");
    let text = shown(&mut view, &board, (80, 24));
    assert!(text.contains("filter pipe 17: 1 of 50") && text.contains("> pipe 17 "), "{text}");
    press(&mut view, &board, "\x1b");
    assert_eq!(view.filter, "");
}

#[test]
fn a_paused_view_keeps_its_rows() {
    let (mut view, mut board) = (list(), many(2));
    press(&mut view, &board, "p");
    let before = shown(&mut view, &board, (80, 24));
    assert!(before.contains(" paused "), "{before}");
    let about = About { name: DAEMON.to_owned(), daemon: true, ..About::default() };
    enter(&mut board, about, vec![super::board::example(Kind::Pipe, "9", 1e6)]);
    assert_eq!(shown(&mut view, &board, (80, 24)), before);
    press(&mut view, &board, "p");
    assert!(shown(&mut view, &board, (80, 24)).contains("pipe 9 "));
}

#[test]
fn names_do_not_control_the_terminal() {
    let mut board = Board::default();
    let about = About {
        name: "s\x1b]0;title\x07".to_owned(),
        program: "prog\x1b[2J\u{202e}x".to_owned(),
        problems: vec!["bad\x1bc\r\n".to_owned()],
        ..About::default()
    };
    enter(&mut board, about, vec![super::board::example(Kind::Link, "up\x1b[31m", 1.0)]);
    for keys in ["", "\n", "c"] {
        let mut view = list();
        press(&mut view, &board, keys);
        view.message = "said\x1b[0m".to_owned();
        let text = shown(&mut view, &board, (80, 24));
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(bad), "{text:?}");
        assert!(text.contains("s·]0;title·"), "{text}");
    }
}

#[test]
fn colours_appear_only_if_allowed() {
    let board = real_board();
    let colours = |colour| {
        let buffer = frame(&mut list(), &board, (80, 24), Look { colour, ..LOOK }).buffer().clone();
        let plain = |c: &Color| *c == Color::Reset;
        buffer.content.iter().filter(|cell| !plain(&cell.fg) || !plain(&cell.bg)).count()
    };
    assert_eq!(colours(false), 0);
    assert!(colours(true) > 0);
}

#[test]
fn a_source_that_does_not_answer_is_named() {
    let mut board = real_board();
    let why = "session demo did not answer within 8 s".to_owned();
    let source = board.sources[0].id.clone();
    board.enter(News::Silent { source, name: "demo".to_owned(), why });
    let text = shown(&mut list(), &board, (80, 24));
    assert!(text.contains("! session demo did not answer within 8 s"), "{text}");
    assert!(text.contains(" to-left "), "its last values stay: {text}");
}
