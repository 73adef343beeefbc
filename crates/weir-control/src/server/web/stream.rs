//! The stream of one tab: a WebSocket over which the tab subscribes to the objects that it shows.
//!
//! No messages wait in a queue for a client. A message is made when it is due, from the points
//! since the last message. A slow client therefore gets fewer and longer points. A client that
//! accepts no data at all is disconnected (`server/guard.rs`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::files;
use super::gate::Right;
use super::hub::{Hub, User};
use super::top::{Search, Sort, TOP_PERIOD, View};
use crate::dashboard::{Condition, FIELDS, Group, Object, Point, now_ns, thinned};
use crate::server::stopping::stop;

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request {
    Subscribe(Wish),
    Unsubscribe { id: u32 },
}

/// What a client wants to see.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    /// The number that the client gives to the subscription.
    id: u32,
    what: What,
    /// The time between two messages; 0 for the default of 500 ms.
    #[serde(default)]
    period_ms: u64,
    /// The object of [`What::Object`].
    #[serde(default)]
    object: String,
    /// How many seconds of the past the first message about the object has.
    #[serde(default)]
    history_s: u64,
    /// The group of [`What::Top`]; the fields below select and sort its members.
    #[serde(default)]
    of: String,
    #[serde(default)]
    sort: Sort,
    #[serde(default)]
    order: Option<Order>,
    #[serde(default)]
    n: Option<usize>,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    search: String,
}

/// The content of a subscription.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Overview,
    Object,
    Top,
    Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Asc,
    Desc,
}

struct Subscription {
    user: User,
    period: Duration,
    /// When the next message is due.
    next: Instant,
    shown: Shown,
}

/// What a subscription shows, and how much of it was sent to the client. `sent` is the number of
/// the newest point that was sent, and `past_ns` is the start of the past that the first message
/// has. `last` has the packets and bytes of each rule at `at_ns`.
enum Shown {
    Overview { sent: BTreeMap<Object, u64> },
    Object { object: Object, sent: u64, past_ns: Option<u64> },
    Top { group: Group, view: Box<View> },
    Rules { last: BTreeMap<u32, (u64, u64)>, at_ns: u64 },
}

/// The state of a client's stream.
struct Tab {
    hub: Arc<Hub>,
    subscriptions: BTreeMap<u32, Subscription>,
    /// The earliest time of the next message.
    free: Instant,
    /// The newest change that the client knows.
    change: u64,
    /// The condition that the client knows.
    condition: Arc<Condition>,
    /// When changes and the condition were last checked.
    looked: Instant,
}

/// Why a stream ends.
enum End {
    /// The client has left, or accepts no data.
    Gone,
    /// The client has violated the protocol of the stream.
    Cut(&'static str),
    Stopped,
}

pub(super) async fn serve(
    mut socket: WebSocket,
    hub: Arc<Hub>,
    right: Right,
    name: String,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tab = Tab::new(Arc::clone(&hub));
    let hello = serde_json::json!({
        "type": "hello",
        "now_ms": hub.now_ms(),
        "version": env!("CARGO_PKG_VERSION"),
        "page_version": files::version(),
        "revision": hub.source.revision(),
        "access": right.name(),
        "name": name,
    });
    if send(&mut socket, hello.to_string()).await.is_err() {
        return;
    }
    let end = tab.run(&mut socket, &mut stopped).await;
    let (code, reason) = match end {
        End::Gone => return,
        End::Cut(reason) => (close_code::POLICY, reason),
        End::Stopped => {
            let bye = r#"{"type":"bye","reason":"the daemon ends"}"#;
            // The client may be gone.
            let _ = send(&mut socket, bye.to_owned()).await;
            (close_code::AWAY, "the daemon ends")
        }
    };
    let close = CloseFrame { code, reason: reason.into() };
    let _ = socket.send(Message::Close(Some(close))).await;
}

/// Ends a stream at once, with a reason.
pub(super) async fn refuse(mut socket: WebSocket, reason: &'static str) {
    let close = CloseFrame { code: close_code::POLICY, reason: reason.into() };
    // The client may be gone.
    let _ = socket.send(Message::Close(Some(close))).await;
}

async fn send(socket: &mut WebSocket, text: String) -> Result<(), End> {
    socket.send(Message::Text(text.into())).await.map_err(|_| End::Gone)
}

impl Tab {
    fn new(hub: Arc<Hub>) -> Self {
        let change = hub.changes(0).0.last().map_or(0, |change| change.number);
        Self {
            condition: hub.condition(),
            subscriptions: BTreeMap::new(),
            free: Instant::now(),
            looked: Instant::now(),
            change,
            hub,
        }
    }

    /// Carries out requests and sends messages until the stream ends.
    async fn run(&mut self, socket: &mut WebSocket, stopped: &mut watch::Receiver<bool>) -> End {
        let mut ping = Instant::now() + PING;
        let (mut second, mut requests) = (Instant::now(), 0);
        loop {
            let due = self.subscriptions.values().map(|one| one.next).min();
            let due = due.map_or(ping, |due| due.max(self.free)).min(ping);
            let due = due.min(self.looked + LOOK_AGAIN);
            let received = tokio::select! {
                received = socket.recv() => Some(received),
                () = sleep_until(due) => None,
                () = stop(stopped) => return End::Stopped,
            };
            let outcome = match received {
                Some(Some(Ok(Message::Text(text)))) => {
                    if second.elapsed() >= Duration::from_secs(1) {
                        (second, requests) = (Instant::now(), 0);
                    }
                    requests += 1;
                    if requests > MOST_REQUESTS {
                        return End::Cut("more than 50 messages in a second");
                    }
                    match self.request(text.as_str()) {
                        Some(answer) => send(socket, answer).await,
                        None => Ok(()),
                    }
                }
                Some(Some(Ok(Message::Binary(_)))) => return End::Cut("messages are JSON in text"),
                Some(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => Ok(()),
                Some(Some(Ok(Message::Close(_)) | Err(_)) | None) => return End::Gone,
                None => self.due(socket, &mut ping).await,
            };
            if let Err(end) = outcome {
                return end;
            }
        }
    }

    /// Sends all messages that are due.
    async fn due(&mut self, socket: &mut WebSocket, ping: &mut Instant) -> Result<(), End> {
        if *ping <= Instant::now() {
            *ping = Instant::now() + PING;
            socket.send(Message::Ping(Vec::new().into())).await.map_err(|_| End::Gone)?;
        }
        for news in self.news() {
            send(socket, news).await?;
        }
        let rules_due = self
            .subscriptions
            .values()
            .any(|one| matches!(one.shown, Shown::Rules { .. }) && one.next <= Instant::now());
        let rules = if rules_due { self.hub.rule_views().await } else { None };
        if let Some(frame) = self.frame(rules.as_ref().map(|views| views.as_slice())) {
            self.free = Instant::now() + LEAST_PERIOD;
            send(socket, frame).await?;
        }
        Ok(())
    }

    /// The messages about new changes, and about the condition if it has changed.
    fn news(&mut self) -> Vec<String> {
        if self.looked.elapsed() < LOOK_AGAIN {
            return Vec::new();
        }
        self.looked = Instant::now();
        let mut news = Vec::new();
        for change in self.hub.changes(self.change).0 {
            self.change = change.number;
            news.push(serde_json::json!({"type": "change", "change": change}).to_string());
        }
        let condition = self.hub.condition();
        if condition != self.condition {
            let text = serde_json::json!({
                "type": "health",
                "status": condition.status,
                "problems": condition.problems,
            });
            news.push(text.to_string());
            self.condition = condition;
        }
        news
    }

    /// Carries out a request of the client. Returns the answer, if there is one.
    fn request(&mut self, text: &str) -> Option<String> {
        let refused = |id: Option<u32>, message: String| {
            Some(serde_json::json!({"type": "refused", "id": id, "message": message}).to_string())
        };
        match serde_json::from_str(text) {
            Ok(Request::Unsubscribe { id }) => {
                self.unsubscribe(id);
                None
            }
            Ok(Request::Subscribe(wish)) => {
                let id = wish.id;
                match self.subscribe(&wish) {
                    Ok(answer) => Some(answer),
                    Err(message) => refused(Some(id), message),
                }
            }
            Err(error) => refused(None, format!("this is no request: {error}")),
        }
    }

    fn unsubscribe(&mut self, id: u32) {
        // Dropping the user ends its watches.
        self.subscriptions.remove(&id);
    }

    /// Starts a subscription, and returns the answer. An error is a message for the client.
    fn subscribe(&mut self, wish: &Wish) -> Result<String, String> {
        self.unsubscribe(wish.id);
        if self.subscriptions.len() >= MOST_SUBSCRIPTIONS {
            return Err(format!("a tab has at most {MOST_SUBSCRIPTIONS} subscriptions"));
        }
        let user = self.hub.user();
        let asked = Duration::from_millis(if wish.period_ms == 0 { 500 } else { wish.period_ms });
        let mut period = asked.clamp(LEAST_PERIOD, GREATEST_PERIOD);
        let (shown, fields) = match wish.what {
            What::Overview => {
                user.watch_all(period);
                (Shown::Overview { sent: BTreeMap::new() }, OVERVIEW)
            }
            What::Object => {
                let object: Object = wish
                    .object
                    .parse()
                    .map_err(|error: crate::dashboard::NoObject| error.to_string())?;
                let sent = user.watch(&object, period).map_err(|error| error.to_string())?;
                let past = wish.history_s.min(MOST_HISTORY_S) * 1_000_000_000;
                let past_ns = (past > 0).then(|| now_ns().saturating_sub(past));
                (Shown::Object { object, sent, past_ns }, FIELDS)
            }
            What::Top => {
                let group: Group = wish
                    .of
                    .parse()
                    .map_err(|error: crate::dashboard::NoObject| error.to_string())?;
                period = period.max(TOP_PERIOD);
                user.rank(group);
                let by_name = wish.sort == Sort::Name;
                let order = wish.order.unwrap_or(if by_name { Order::Asc } else { Order::Desc });
                let view = View {
                    sort: wish.sort,
                    ascending: order == Order::Asc,
                    n: wish.n.unwrap_or(20).min(MOST_TOP),
                    offset: wish.offset,
                    search: Search::new(&wish.search),
                };
                (Shown::Top { group, view: Box::new(view) }, &[] as &[&str])
            }
            What::Rules => {
                period = period.max(TOP_PERIOD);
                (Shown::Rules { last: BTreeMap::new(), at_ns: 0 }, RULES)
            }
        };
        let answer = serde_json::json!({
            "type": "subscribed",
            "id": wish.id,
            "period_ms": u64::try_from(period.as_millis()).unwrap_or(u64::MAX),
            "fields": fields,
        });
        // The first message comes at once, the later ones just after the readings of a period.
        let next = Instant::now() + AFTER_READING;
        self.subscriptions.insert(wish.id, Subscription { user, period, next, shown });
        Ok(answer.to_string())
    }

    /// A message with everything that is due; `None` if nothing is due.
    fn frame(&mut self, rules: Option<&[crate::api::RuleView]>) -> Option<String> {
        let now = Instant::now();
        let (hub, mut frame, mut gone) = (&self.hub, String::new(), Vec::new());
        for (&id, one) in self.subscriptions.iter_mut().filter(|(_, one)| one.next <= now) {
            one.next = hub.next(one.period) + AFTER_READING;
            // If the loop does not answer, the client keeps showing the last rules.
            if rules.is_none() && matches!(one.shown, Shown::Rules { .. }) {
                continue;
            }
            let start = frame.len();
            // Writing to a string cannot fail.
            let _ = write!(frame, "{}{{\"id\":{id},", if start > 0 { "," } else { "" });
            if !one.write(hub, rules, &mut frame) {
                gone.push(id);
            }
            frame.push('}');
        }
        if frame.is_empty() {
            return None;
        }
        for id in gone {
            self.subscriptions.remove(&id);
        }
        let (now_ms, revision) = (hub.now_ms(), hub.source.revision());
        Some(format!(
            "{{\"type\":\"frame\",\"now_ms\":{now_ms},\"revision\":{revision},\"parts\":[{frame}]}}"
        ))
    }
}

impl Subscription {
    /// Writes the members of the JSON object for this subscription. Returns whether the
    /// subscription continues.
    fn write(
        &mut self,
        hub: &Hub,
        rules: Option<&[crate::api::RuleView]>,
        out: &mut String,
    ) -> bool {
        match &mut self.shown {
            Shown::Overview { sent } => write_overview(hub, sent, out),
            Shown::Object { object, sent, past_ns } => {
                let news = self.user.news(object, *sent);
                let past = past_ns.take();
                let points = match past {
                    Some(from) => {
                        hub.past(object, from, |points| thinned(points.into_iter(), MOST_PAST))
                    }
                    None => {
                        let wanted = in_periods(news.points, self.period);
                        thinned(wanted.iter(), MOST_POINTS)
                    }
                };
                *sent = news.newest;
                if past.is_some() {
                    out.push_str("\"history\":true,");
                } else if news.gap {
                    out.push_str("\"gap\":true,");
                }
                if news.gone {
                    out.push_str("\"gone\":true,");
                }
                out.push_str("\"points\":[");
                for (n, point) in points.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    point.write(hub.base_ms(), out);
                }
                out.push(']');
                return !news.gone;
            }
            Shown::Top { group, view } => match self.user.ranking(*group) {
                Some(ranking) => ranking.write(view, out),
                None => out.push_str("\"rows\":[]"),
            },
            Shown::Rules { last, at_ns } => {
                write_rules(rules.unwrap_or_default(), last, at_ns, out);
            }
        }
        true
    }
}

/// Merges points that are shorter than a client's period. Such points occur when another client
/// watches the same object with a shorter period.
fn in_periods(points: Vec<Point>, period: Duration) -> Vec<Point> {
    let least = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX) / 4 * 3;
    let mut merged: Vec<Point> = Vec::new();
    for point in points {
        match merged.last_mut() {
            Some(last) if last.span_ns < least => *last = std::mem::take(last).merge(&point),
            _ => merged.push(point),
        }
    }
    merged
}

/// Writes the overview. `sent` has the number of the newest point that was sent of each object.
fn write_overview(hub: &Hub, sent: &mut BTreeMap<Object, u64>, out: &mut String) {
    let condition = hub.condition();
    let mut rows = String::new();
    let (mut late_p99, mut late_max, mut total) = (0u64, 0u64, 0u64);
    let (mut drops, mut waiting, mut in_bps, mut out_bps) = (0u64, 0u64, 0f64, 0f64);
    hub.overview(|object, kept| {
        total += 1;
        let newest = kept.newest();
        let after = sent.insert(object.clone(), newest);
        // The first frame has the newest point. Each later frame has all points since the frame
        // before, merged into one.
        let points = kept.after(after.unwrap_or(newest.saturating_sub(1))).0;
        let Some(point) = thinned(points, 1).pop().or_else(|| kept.last().cloned()) else { return };
        let quantile = |times: Option<crate::dashboard::Quantiles>| {
            times.map_or("null".to_owned(), |times| times.p99.to_string())
        };
        let name = serde_json::to_string(&object.to_string()).unwrap_or_default();
        let _ = write!(
            rows,
            "{}[{name},{:.0},{:.0},{},{},{},{}]",
            if rows.is_empty() { "" } else { "," },
            point.in_bps(),
            point.out_bps(),
            point.most_waiting(),
            point.drops(),
            quantile(point.wait),
            quantile(point.late),
        );
        late_p99 = late_p99.max(point.late.map_or(0, |late| late.p99));
        late_max = late_max.max(point.late.map_or(0, |late| late.max));
        if matches!(object, Object::Link(_) | Object::Lane(_)) {
            (in_bps, out_bps) = (in_bps + point.in_bps(), out_bps + point.out_bps());
            (drops, waiting) = (drops + point.drops(), waiting + point.most_waiting());
        }
    });
    let health = serde_json::json!({
        "status": condition.status,
        "problems": condition.problems,
        "late_p99_ns": late_p99,
        "late_max_ns": late_max,
        "realtime": condition.realtime,
        "workers": condition.workers,
    });
    let _ = write!(
        out,
        "\"health\":{health},\"fields\":{},\"rows\":[{rows}],\"total\":{total},\"totals\":\
         {{\"in_bps\":{in_bps:.0},\"out_bps\":{out_bps:.0},\"drops\":{drops},\
         \"queue_packets\":{waiting}}}",
        serde_json::json!(OVERVIEW),
    );
}

/// Writes the rules with their rates since the last message.
fn write_rules(
    views: &[crate::api::RuleView],
    last: &mut BTreeMap<u32, (u64, u64)>,
    at_ns: &mut u64,
    out: &mut String,
) {
    let now = now_ns();
    let seconds = (now - std::mem::replace(at_ns, now)) as f64 / 1e9;
    let known = std::mem::take(last);
    let _ =
        write!(out, "\"fields\":{},\"total\":{},\"rows\":[", serde_json::json!(RULES), views.len());
    for (n, rule) in views.iter().take(MOST_RULES).enumerate() {
        let counters = &rule.counters;
        let before = known.get(&rule.id).copied();
        let rate = |now: u64, then: fn((u64, u64)) -> u64| {
            before.map_or(0.0, |old| now.saturating_sub(then(old)) as f64 / seconds)
        };
        let seen = counters.last_match_s.map_or("null".to_owned(), |at| at.to_string());
        let _ = write!(
            out,
            "{}[{},{},{},{},{:.1},{:.0},{seen}]",
            if n > 0 { "," } else { "" },
            rule.id,
            rule.number,
            counters.packets,
            counters.bytes,
            rate(counters.packets, |old| old.0),
            rate(counters.bytes, |old| old.1) * 8.0,
        );
        last.insert(rule.id, (counters.packets, counters.bytes));
    }
    out.push(']');
}

/// The fields of a row of the overview.
const OVERVIEW: &[&str] =
    &["object", "in_bps", "out_bps", "queue_packets", "drops", "wait_p99_ns", "late_p99_ns"];
/// The fields of a row of the rules.
const RULES: &[&str] = &["id", "number", "packets", "bytes", "pps", "bps", "last_match_s"];
/// The shortest time between two messages: 30 a second.
pub(super) const LEAST_PERIOD: Duration = Duration::from_millis(33);
/// The longest period of a subscription.
pub(super) const GREATEST_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of subscriptions of a tab.
pub(super) const MOST_SUBSCRIPTIONS: usize = 16;
/// Maximum number of rows of a list of members.
pub(super) const MOST_TOP: usize = 100;
/// Maximum number of points in one part of a message, except the past.
const MOST_POINTS: usize = 30;
/// Maximum number of points of the past in one message.
const MOST_PAST: usize = 2000;
/// Maximum number of rules in one part of a message.
const MOST_RULES: usize = 1000;
/// Maximum number of requests of a tab in a second.
const MOST_REQUESTS: u32 = 50;
/// The longest past that a subscription begins with, in seconds.
const MOST_HISTORY_S: u64 = 86_400;
/// The time between two checks for changes.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The time between two pings, which keep a proxy from closing the stream.
const PING: Duration = Duration::from_secs(15);
/// The time from the end of a period until its readings are expected.
const AFTER_READING: Duration = Duration::from_millis(8);
/// The longest message of a client, in bytes.
pub(super) const MOST_MESSAGE: usize = 4096;
