//! Plots as SVG text: pure functions from data to a picture, without a browser or an installed
//! font.
//!
//! Colours are CSS variables (`--c0` to `--c6`, distinguishable with the common colour vision
//! deficiencies), so one picture fits light and dark pages. [`Plot::svg`] creates the picture for a
//! page that includes [`STYLE`]. [`Plot::standalone`] creates a separate file, and [`Plot::png`]
//! creates the same picture in pixels. Data is drawn inside `<g class="data">`, which a script may
//! scale to zoom.

mod axis;
mod finding;
pub mod palette;
mod raster;

use std::fmt::Write;

use axis::Fitted;
pub use axis::{Axis, Scale, Unit};

/// A plot: axes and curves.
#[derive(Clone, Debug)]
pub struct Plot {
    /// A short title.
    pub title: String,
    /// Description as alternative text.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The curves; the first one is drawn first, below the others.
    pub curves: Vec<Curve>,
}

/// One set of data in a plot.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The name in the legend. A curve with an empty name is not in the legend.
    pub name: String,
    /// Index into the palette, 0 to 6.
    pub colour: u8,
    /// The data and the drawing style.
    pub shape: Shape,
}

/// Data of a curve, in the units of the axes and ascending in x, with the drawing style.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Points joined by straight lines: `[x, y]`.
    Line(Vec<[f64; 2]>),
    /// Points joined by dashed lines: `[x, y]`.
    Dashes(Vec<[f64; 2]>),
    /// Only points.
    Dots(Vec<[f64; 2]>),
    /// Values that hold until the next point: `[x, y]`. The last point ends the curve. A value that
    /// is not a number leaves a gap until the next point.
    Steps(Vec<[f64; 2]>),
    /// Ranges that hold until the next one: `[x, low, high]`. The last one ends the band. A range
    /// without numbers leaves a gap until the next one.
    Band(Vec<[f64; 3]>),
    /// Filled bars: `[x0, x1, low, high]`.
    Bars(Vec<[f64; 4]>),
    /// A dashed horizontal line at this y.
    Level(f64),
    /// A dashed vertical line at this x.
    Mark(f64),
}

/// A picture's size, px.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

impl Plot {
    /// The picture for a page that includes [`STYLE`]. `id` must be unique on the page.
    pub fn svg(&self, size: Size, id: &str) -> String {
        self.draw(size, id, "")
    }

    /// The picture as a separate file.
    pub fn standalone(&self, size: Size) -> String {
        self.draw(size, "plot", &format!("<style>{STYLE}</style>"))
    }

    fn draw(&self, size: Size, id: &str, style: &str) -> String {
        let legend = Legend::layout(&self.curves, f64::from(size.width) - LEFT - RIGHT);
        let frame = Frame::new(size, legend.height);
        let [x_range, y_range] = self.extent();
        let x = Fitted::new(&self.x, x_range.0, x_range.1, (frame.left, frame.right), 68.0);
        let y = Fitted::new(&self.y, y_range.0, y_range.1, (frame.bottom, frame.top), 34.0);
        let mut out = String::with_capacity(16 << 10);
        self.open(&mut out, size, id, &frame, &x, &y);
        out.push_str(style);
        let _ = write!(
            out,
            "<title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(&self.title),
            escape(&self.description)
        );
        grid(&mut out, &frame, &x, &y);
        legend.draw(&mut out, &frame);
        let _ = write!(
            out,
            "<clipPath id=\"{id}-c\"><rect x=\"{}\" y=\"{}\" width=\"{}\" \
             height=\"{}\"/></clipPath><g clip-path=\"url(#{id}-c)\"><g class=\"data\">",
            Px(frame.left),
            Px(frame.top - 1.0),
            Px(frame.right - frame.left),
            Px(frame.bottom - frame.top + 2.0)
        );
        for (n, curve) in self.curves.iter().enumerate() {
            curve.draw(&mut out, &x, &y, &frame, self.is_covered(n, &x, &y));
        }
        out.push_str("</g></g>");
        if self.curves.iter().all(|c| c.shape.is_empty()) {
            let (cx, cy) = ((frame.left + frame.right) / 2.0, (frame.top + frame.bottom) / 2.0);
            let _ = write!(
                out,
                "<text class=\"none\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">no data</text>",
                Px(cx),
                Px(cy)
            );
        }
        out.push_str("</svg>");
        out
    }

    /// The root element. Its `data-` attributes let a script convert positions to values.
    fn open(&self, out: &mut String, size: Size, id: &str, frame: &Frame, x: &Fitted, y: &Fitted) {
        let log = if x.scale == Scale::Log { 1 } else { 0 };
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"weir-plot\" viewBox=\"0 0 {} {}\" \
             role=\"img\" aria-labelledby=\"{id}-t {id}-d\" data-frame=\"{},{},{},{}\" \
             data-x=\"{},{},{log},{}\" data-y=\"{},{}\">",
            size.width,
            size.height,
            Px(frame.left),
            Px(frame.top),
            Px(frame.right),
            Px(frame.bottom),
            x.low,
            x.high,
            x.unit_size,
            y.low,
            y.high
        );
    }

    /// Whether a later line covers line `n` nearly everywhere. Line `n` is then drawn wider, so
    /// that both are visible.
    fn is_covered(&self, n: usize, x: &Fitted, y: &Fitted) -> bool {
        let points = |curve: &Curve| match &curve.shape {
            Shape::Line(points) | Shape::Steps(points) => Some(points.clone()),
            _ => None,
        };
        let Some(own) = points(&self.curves[n]).filter(|own| !own.is_empty()) else {
            return false;
        };
        self.curves[n + 1..].iter().filter_map(points).any(|other| {
            let near = |a: &[f64; 2], b: &[f64; 2]| {
                (x.place(a[0]) - x.place(b[0])).abs() < NEAR
                    && (y.place(a[1]) - y.place(b[1])).abs() < NEAR
            };
            let same = own.iter().zip(&other).filter(|(a, b)| near(a, b)).count();
            own.len() == other.len() && same * 10 >= own.len() * 9
        })
    }

    /// The smallest and the largest x and y of all data.
    fn extent(&self) -> [(f64, f64); 2] {
        let mut all = [(f64::INFINITY, f64::NEG_INFINITY); 2];
        let mut take = |axis: usize, v: f64| {
            if v.is_finite() {
                all[axis] = (all[axis].0.min(v), all[axis].1.max(v));
            }
        };
        for curve in &self.curves {
            match &curve.shape {
                Shape::Line(p) | Shape::Dashes(p) | Shape::Dots(p) | Shape::Steps(p) => {
                    for [x, y] in p {
                        take(0, *x);
                        take(1, *y);
                    }
                }
                Shape::Band(p) => {
                    for [x, low, high] in p {
                        take(0, *x);
                        take(1, *low);
                        take(1, *high);
                    }
                }
                Shape::Bars(p) => {
                    for [x0, x1, low, high] in p {
                        take(0, *x0);
                        take(0, *x1);
                        take(1, *low);
                        take(1, *high);
                    }
                }
                Shape::Level(y) => take(1, *y),
                Shape::Mark(x) => take(0, *x),
            }
        }
        all.map(|r| if r.0.is_finite() { r } else { (0.0, 0.0) })
    }
}

impl Shape {
    fn is_empty(&self) -> bool {
        match self {
            Self::Line(p) | Self::Dashes(p) | Self::Dots(p) | Self::Steps(p) => p.is_empty(),
            Self::Band(p) => p.is_empty(),
            Self::Bars(p) => p.is_empty(),
            Self::Level(_) | Self::Mark(_) => true,
        }
    }
}

impl Curve {
    /// A curve named `name` in palette colour `colour`.
    pub fn new(name: &str, colour: u8, shape: Shape) -> Self {
        Self { name: name.to_owned(), colour, shape }
    }

    fn draw(&self, out: &mut String, x: &Fitted, y: &Fitted, frame: &Frame, is_covered: bool) {
        let c = self.colour;
        let line = if is_covered { "line under" } else { "line" };
        let (class, path) = match &self.shape {
            Shape::Line(points) => (line, joined(points, x, y)),
            Shape::Dashes(points) => ("level", joined(points, x, y)),
            Shape::Dots(points) => (
                "dots",
                points
                    .iter()
                    .map(|p| format!("M{} {}h0", Px(x.place(p[0])), Px(y.place(p[1]))))
                    .collect(),
            ),
            Shape::Steps(points) => (line, steps(points.iter().map(|p| (p[0], p[1])), x, y)),
            Shape::Band(points) => ("band", band(points, x, y)),
            Shape::Bars(bars) => ("bars", bars.iter().map(|b| bar(b, x, y)).collect()),
            Shape::Level(v) => {
                ("level", format!("M{} {}H{}", Px(frame.left), Px(y.place(*v)), Px(frame.right)))
            }
            Shape::Mark(v) => {
                ("level", format!("M{} {}V{}", Px(x.place(*v)), Px(frame.bottom), Px(frame.top)))
            }
        };
        let _ = write!(out, "<path class=\"{class} c{c}\" d=\"{path}\"/>");
    }
}

fn joined(points: &[[f64; 2]], x: &Fitted, y: &Fitted) -> String {
    let mut path = String::new();
    for (i, [px, py]) in points.iter().enumerate() {
        let _ = write!(
            path,
            "{}{} {}",
            if i == 0 { 'M' } else { 'L' },
            Px(x.place(*px)),
            Px(y.place(*py))
        );
    }
    path
}

/// The path of a band: a closed area for each part without a gap.
fn band(points: &[[f64; 3]], x: &Fitted, y: &Fitted) -> String {
    let mut path = String::new();
    let mut rest = points;
    while let Some(first) = rest.iter().position(|p| p[1].is_finite()) {
        rest = &rest[first..];
        let end = rest.iter().position(|p| !p[1].is_finite());
        // A part ends where the gap begins.
        let mut part = rest[..end.unwrap_or(rest.len())].to_vec();
        if let (Some(&[gap, ..]), Some(&[_, low, high])) = (end.map(|end| &rest[end]), part.last())
        {
            part.push([gap, low, high]);
        }
        path.push_str(&steps(part.iter().map(|p| (p[0], p[2])), x, y));
        path.push_str(&back_steps(&part, x, y));
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    path
}

/// The path of steps: only horizontal and vertical strokes, one stroke for consecutive equal
/// values.
fn steps(points: impl Iterator<Item = (f64, f64)>, x: &Fitted, y: &Fitted) -> String {
    let (mut path, mut last) = (String::new(), None);
    let mut end = None;
    for (px, py) in points {
        if !py.is_finite() {
            if last.take().is_some() {
                let _ = write!(path, "H{}", Px(x.place(px)));
            }
            end = None;
            continue;
        }
        let (px, py) = (x.place(px), Px(y.place(py)).to_string());
        end = Some(px);
        match &last {
            None => {
                let _ = write!(path, "M{} {py}", Px(px));
            }
            Some(before) if *before == py => continue,
            Some(_) => {
                let _ = write!(path, "H{}V{py}", Px(px));
            }
        }
        last = Some(py);
    }
    end.into_iter().for_each(|px| {
        let _ = write!(path, "H{}", Px(px));
    });
    path
}

/// The lower edge of a band, from right to left.
fn back_steps(points: &[[f64; 3]], x: &Fitted, y: &Fitted) -> String {
    let mut path = String::new();
    for pair in points.windows(2).rev() {
        let _ = write!(
            path,
            "L{} {}H{}",
            Px(x.place(pair[1][0])),
            Px(y.place(pair[0][1])),
            Px(x.place(pair[0][0]))
        );
    }
    path.push('Z');
    path
}

fn bar(&[x0, x1, low, high]: &[f64; 4], x: &Fitted, y: &Fitted) -> String {
    let (left, right) = (x.place(x0), x.place(x1));
    // A gap between adjacent bars, unless the bars are too narrow for it.
    let gap = if right - left > 3.0 { 0.5 } else { 0.0 };
    let right = (right - gap).max(left + 0.75);
    format!(
        "M{} {}V{}H{}V{}Z",
        Px(left),
        Px(y.place(low)),
        Px(y.place(high)),
        Px(right),
        Px(y.place(low))
    )
}

/// The rectangle of the data, px.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Frame {
    fn new(size: Size, legend: f64) -> Self {
        Self {
            left: LEFT,
            top: TOP + legend,
            right: f64::from(size.width) - RIGHT,
            bottom: f64::from(size.height) - BOTTOM,
        }
    }
}

fn grid(out: &mut String, frame: &Frame, x: &Fitted, y: &Fitted) {
    out.push_str("<g class=\"grid\">");
    for (value, _) in &y.ticks {
        let _ = write!(
            out,
            "<path d=\"M{} {}H{}\"/>",
            Px(frame.left),
            Px(y.place(*value)),
            Px(frame.right)
        );
    }
    out.push_str("</g><g class=\"ticks\" text-anchor=\"end\">");
    for (value, text) in &y.ticks {
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            Px(frame.left - 6.0),
            Px(y.place(*value) + 4.0),
            escape(text)
        );
    }
    out.push_str("</g><g class=\"ticks xticks\" text-anchor=\"middle\">");
    for (value, text) in &x.ticks {
        let px = x.place(*value);
        let _ = write!(
            out,
            "<path d=\"M{} {}v5\"/><text x=\"{}\" y=\"{}\">{}</text>",
            Px(px),
            Px(frame.bottom),
            Px(px),
            Px(frame.bottom + 18.0),
            escape(text)
        );
    }
    let _ = write!(
        out,
        "</g><path class=\"axis\" d=\"M{} {}H{}\"/><text class=\"label\" x=\"4\" \
         y=\"13\">{}</text><text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        Px(frame.left),
        Px(frame.bottom),
        Px(frame.right),
        escape(&y.title),
        Px(frame.right),
        Px(frame.bottom + 35.0),
        escape(&x.title)
    );
}

/// Names of the curves, in rows.
struct Legend<'a> {
    /// The curve, its x position in px, and its row.
    items: Vec<(&'a Curve, f64, f64)>,
    height: f64,
}

impl<'a> Legend<'a> {
    fn layout(curves: &'a [Curve], width: f64) -> Self {
        let (mut items, mut x, mut row) = (Vec::new(), 0.0, 0.0);
        for curve in curves.iter().filter(|c| !c.name.is_empty()) {
            let item = 26.0 + curve.name.chars().count() as f64 * CHARACTER + 14.0;
            if x > 0.0 && x + item > width {
                (x, row) = (0.0, row + 1.0);
            }
            items.push((curve, x, row));
            x += item;
        }
        let height = if items.is_empty() { 0.0 } else { (row + 1.0) * ROW };
        Self { items, height }
    }

    fn draw(&self, out: &mut String, frame: &Frame) {
        for (curve, x, row) in &self.items {
            let (x, y) = (frame.left + x, TOP + row * ROW);
            let c = curve.colour;
            let key = match curve.shape {
                Shape::Band(_) | Shape::Bars(_) => {
                    let class = if matches!(curve.shape, Shape::Band(_)) { "band" } else { "bars" };
                    format!(
                        "<path class=\"{class} c{c}\" d=\"M{} {}h18v9h-18Z\"/>",
                        Px(x),
                        Px(y - 1.0)
                    )
                }
                Shape::Dots(_) => {
                    format!("<path class=\"dots c{c}\" d=\"M{} {}h0\"/>", Px(x + 9.0), Px(y + 4.0))
                }
                Shape::Level(_) | Shape::Mark(_) | Shape::Dashes(_) => {
                    format!("<path class=\"level c{c}\" d=\"M{} {}h18\"/>", Px(x), Px(y + 4.0))
                }
                _ => format!("<path class=\"line c{c}\" d=\"M{} {}h18\"/>", Px(x), Px(y + 4.0)),
            };
            let _ = write!(
                out,
                "{key}<text x=\"{}\" y=\"{}\">{}</text>",
                Px(x + 24.0),
                Px(y + 8.0),
                escape(&curve.name)
            );
        }
    }
}

/// A coordinate with one decimal, or none if it is a whole number.
struct Px(f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        if tenths == tenths.trunc() { write!(f, "{tenths:.0}") } else { write!(f, "{tenths:.1}") }
    }
}

/// Whether XML or HTML cannot represent a character.
pub(crate) fn is_forbidden(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n')) || matches!(c, '\u{FFFE}' | '\u{FFFF}')
}

/// Escapes text for element content and quoted attributes of a picture. Characters that XML cannot
/// represent become U+FFFD.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if is_forbidden(c) => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

/// The style sheet for pictures. The first four colours for light backgrounds are from the palette
/// of Okabe and Ito.
pub const STYLE: &str = include_str!("plot.css");
/// A line covers another one if their points are nearer than this, px.
const NEAR: f64 = 1.5;

/// The margins of the data area, px.
const LEFT: f64 = 50.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;
/// The height of a row of the legend, and the average width of a character, px.
const ROW: f64 = 18.0;
const CHARACTER: f64 = 6.3;

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(curves: Vec<Curve>) -> Plot {
        Plot {
            title: "Throughput <of> & \"all\"".into(),
            description: "What went through".into(),
            x: Axis::linear("time", Unit::Seconds),
            y: Axis::linear("throughput", Unit::BitsPerSecond),
            curves,
        }
    }

    #[test]
    fn every_shape_has_its_picture() {
        let picture = plot(vec![
            Curve::new(
                "range",
                1,
                Shape::Band(vec![[0.0, 1e6, 2e6], [1.0, 0.5e6, 3e6], [2.0, 0.5e6, 3e6]]),
            ),
            Curve::new("drops", 2, Shape::Bars(vec![[0.0, 1.0, 0.0, 1e6]])),
            Curve::new(
                "out",
                0,
                Shape::Steps(vec![[0.0, 1e6], [1.0, 1e6], [1.5, 2e6], [2.0, 2e6]]),
            ),
            Curve::new("", 3, Shape::Line(vec![[0.0, 0.0], [2.0, 4e6]])),
            Curve::new("configured", 4, Shape::Level(4e6)),
            Curve::new("", 4, Shape::Mark(1.0)),
        ])
        .svg(Size { width: 360, height: 200 }, "p1");
        insta::assert_snapshot!(picture.replace("><", ">\n<"));
    }

    #[test]
    fn a_line_that_another_one_covers_is_drawn_wider() {
        let line = |name: &str, colour, y| {
            Curve::new(name, colour, Shape::Line(vec![[0.0, 1e6], [1.0, 2e6], [2.0, y]]))
        };
        let picture = |last| plot(vec![line("a", 0, 4e6), line("b", 1, last)]);
        let svg = |last| picture(last).svg(Size { width: 360, height: 200 }, "p");
        assert!(svg(4.001e6).contains("class=\"line under c0\""));
        assert!(!svg(1e6).contains("under"));
    }

    #[test]
    fn an_empty_plot_says_so_and_odd_numbers_do_not_break_it() {
        assert!(plot(vec![]).standalone(Size { width: 300, height: 150 }).contains("no data"));
        let odd = plot(vec![Curve::new(
            "x",
            0,
            Shape::Line(vec![[f64::NAN, 1.0], [1.0, f64::INFINITY]]),
        )]);
        assert!(odd.svg(Size { width: 300, height: 150 }, "p").ends_with("</svg>"));
    }

    #[test]
    fn a_value_that_is_no_number_is_a_gap() {
        let unknown = f64::NAN;
        let line = vec![[0.0, 1e6], [1.0, unknown], [2.0, 2e6], [3.0, 2e6]];
        let band = vec![[0.0, 0.0, 1e6], [1.0, unknown, unknown], [2.0, 0.0, 2e6], [3.0, 0.0, 2e6]];
        let picture = plot(vec![
            Curve::new("a", 0, Shape::Steps(line)),
            Curve::new("b", 1, Shape::Band(band)),
        ])
        .svg(Size { width: 360, height: 200 }, "p");
        assert!(!picture.contains("NaN"), "{picture}");
        let path = |class: &str| {
            let at = picture.rfind(&format!("class=\"{class}\"")).unwrap();
            picture[at..].split('"').nth(3).unwrap().to_owned()
        };
        assert_eq!(path("line c0").matches('M').count(), 2, "{}", path("line c0"));
        assert_eq!(path("band c1").matches('Z').count(), 2, "{}", path("band c1"));
    }

    #[test]
    fn text_cannot_end_its_element() {
        assert_eq!(escape("</script>\"'&\u{1b}"), "&lt;/script&gt;&quot;&#39;&amp;\u{FFFD}");
    }
}
