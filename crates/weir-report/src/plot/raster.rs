//! Plots as PNG: the picture of the SVG at twice its size, on a white background, for programs
//! without SVG support.
//!
//! The picture consists of straight strokes, rectangles and text, so a canvas with these three
//! suffices. A stroke covers a pixel if the centre of the pixel is within the width of the stroke.
//! The edge is blended over half a pixel on either side.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use super::axis::Fitted;
use super::palette::{Colour, LIGHT};
use super::{BOTTOM, Curve, Frame, LEFT, Legend, Plot, RIGHT, ROW, Shape, Size, TOP};

impl Plot {
    /// The picture as a PNG file, with twice as many pixels as `size` in each direction.
    ///
    /// # Errors
    /// The picture exceeds the size limits of PNG.
    pub fn png(&self, size: Size) -> Result<Vec<u8>, png::EncodingError> {
        let legend = Legend::layout(&self.curves, f64::from(size.width) - LEFT - RIGHT);
        let frame = Frame::new(size, legend.height);
        let [x_range, y_range] = self.extent();
        let x = Fitted::new(&self.x, x_range.0, x_range.1, (frame.left, frame.right), 68.0);
        let y = Fitted::new(&self.y, y_range.0, y_range.1, (frame.bottom, frame.top), 34.0);
        let mut canvas = Canvas::new(size);
        grid(&mut canvas, &frame, &x, &y);
        for (curve, left, row) in &legend.items {
            let (left, top) = (frame.left + left, TOP + row * ROW);
            canvas.key(curve, left, top);
            canvas.text(left + 24.0, top + 4.0, Anchor::Start, INK, &curve.name);
        }
        canvas.clip = Some(&frame);
        for (n, curve) in self.curves.iter().enumerate() {
            let width = if self.is_covered(n, &x, &y) { UNDER } else { LINE };
            canvas.curve(curve, &x, &y, width);
        }
        canvas.encode()
    }
}

fn grid(canvas: &mut Canvas<'_>, frame: &Frame, x: &Fitted, y: &Fitted) {
    for (value, text) in &y.ticks {
        let at = y.place(*value);
        canvas.stroke([frame.left, at], [frame.right, at], 1.0, RULE);
        canvas.text(frame.left - 6.0, at, Anchor::End, MUTED, text);
    }
    for (value, text) in &x.ticks {
        let at = x.place(*value);
        canvas.stroke([at, frame.bottom], [at, frame.bottom + 5.0], 1.0, MUTED);
        canvas.text(at, frame.bottom + 14.0, Anchor::Middle, MUTED, text);
    }
    canvas.stroke([frame.left, frame.bottom], [frame.right, frame.bottom], 1.0, MUTED);
    canvas.text(4.0, 9.0, Anchor::Start, MUTED, &y.title);
    canvas.text(frame.right, frame.bottom + BOTTOM - 11.0, Anchor::End, MUTED, &x.title);
}

/// The alignment of text relative to its position.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// Pixels in red, green and blue. Coordinates are those of the SVG.
struct Canvas<'a> {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
    /// Strokes and rectangles are clipped to this frame.
    clip: Option<&'a Frame>,
}

impl Canvas<'_> {
    fn new(size: Size) -> Self {
        let (width, height) = (size.width as usize * SCALE, size.height as usize * SCALE);
        Self { width, height, pixels: vec![255; width * height * 3], clip: None }
    }

    /// Blends a colour into a pixel; `cover` is the opacity from 0 to 1.
    fn mix(&mut self, x: usize, y: usize, colour: Colour, cover: f64) {
        let at = (y * self.width + x) * 3;
        let Some(pixel) = self.pixels.get_mut(at..at + 3).filter(|_| x < self.width) else {
            return;
        };
        for (part, own) in pixel.iter_mut().zip(colour) {
            *part = (f64::from(*part) + (f64::from(own) - f64::from(*part)) * cover.clamp(0.0, 1.0))
                .round() as u8;
        }
    }

    /// The pixels from `low` to `high` on an axis with `count` pixels.
    fn pixels_of(low: f64, high: f64, count: usize) -> std::ops::Range<usize> {
        let clamp = |v: f64| (v * SCALE as f64).clamp(0.0, count as f64);
        clamp(low).floor() as usize..clamp(high).ceil() as usize
    }

    fn rectangle(&mut self, [x0, x1]: [f64; 2], [y0, y1]: [f64; 2], colour: Colour, opacity: f64) {
        let (x0, x1, y0, y1) = self.clipped([x0.min(x1), x0.max(x1)], [y0.min(y1), y0.max(y1)]);
        let inside = |pixel: usize, low: f64, high: f64| {
            let at = pixel as f64 / SCALE as f64;
            (high.min(at + 1.0 / SCALE as f64) - low.max(at)) * SCALE as f64
        };
        for y in Self::pixels_of(y0, y1, self.height) {
            for x in Self::pixels_of(x0, x1, self.width) {
                self.mix(
                    x,
                    y,
                    colour,
                    opacity * inside(x, x0, x1).max(0.0) * inside(y, y0, y1).max(0.0),
                );
            }
        }
    }

    fn clipped(&self, [x0, x1]: [f64; 2], [y0, y1]: [f64; 2]) -> (f64, f64, f64, f64) {
        self.clip.map_or((x0, x1, y0, y1), |f| {
            (x0.max(f.left), x1.min(f.right), y0.max(f.top - 1.0), y1.min(f.bottom + 1.0))
        })
    }

    /// A straight stroke with round ends.
    fn stroke(&mut self, from: [f64; 2], to: [f64; 2], width: f64, colour: Colour) {
        if ![from, to].iter().flatten().all(|v| v.is_finite()) {
            return;
        }
        let half = width / 2.0;
        let edge = half + 1.0 / SCALE as f64;
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let square = (dx * dx + dy * dy).max(1e-9);
        let (x0, x1, y0, y1) = self.clipped(
            [from[0].min(to[0]) - edge, from[0].max(to[0]) + edge],
            [from[1].min(to[1]) - edge, from[1].max(to[1]) + edge],
        );
        for y in Self::pixels_of(y0, y1, self.height) {
            for x in Self::pixels_of(x0, x1, self.width) {
                let [px, py] = [x, y].map(|v| (v as f64 + 0.5) / SCALE as f64);
                let along = (((px - from[0]) * dx + (py - from[1]) * dy) / square).clamp(0.0, 1.0);
                let distance = (px - from[0] - along * dx).hypot(py - from[1] - along * dy);
                self.mix(x, y, colour, (half - distance) * SCALE as f64 + 0.5);
            }
        }
    }

    fn dashes(&mut self, from: [f64; 2], to: [f64; 2], width: f64, colour: Colour) {
        let length = (to[0] - from[0]).hypot(to[1] - from[1]);
        let at = |along: f64| {
            let part = along.min(length) / length.max(1e-9);
            [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part]
        };
        let count = (length / 9.0).ceil().clamp(0.0, 10_000.0) as u32;
        for dash in 0..count {
            let begin = f64::from(dash) * 9.0;
            self.stroke(at(begin), at(begin + 5.0), width, colour);
        }
    }

    /// Draws text with its vertical centre at `y`. Characters without a glyph are left blank.
    fn text(&mut self, x: f64, y: f64, anchor: Anchor, colour: Colour, text: &str) {
        let advance = get_raster_width(FontWeight::Regular, HEIGHT);
        let width = advance * text.chars().count();
        let shift = match anchor {
            Anchor::Start => 0,
            Anchor::Middle => width / 2,
            Anchor::End => width,
        };
        let mut left = (x * SCALE as f64) as isize - shift as isize;
        let top = (y * SCALE as f64) as isize - HEIGHT.val() as isize / 2;
        for letter in text.chars() {
            let raster = get_raster(letter, FontWeight::Regular, HEIGHT);
            let rows = raster.iter().flat_map(|raster| raster.rows().enumerate());
            for (row, column, cover) in rows.flat_map(|(row, line)| {
                line.iter().enumerate().map(move |(column, c)| (row, column, *c))
            }) {
                if let (Ok(x), Ok(y)) =
                    (usize::try_from(left + column as isize), usize::try_from(top + row as isize))
                {
                    self.mix(x, y, colour, f64::from(cover) / 255.0);
                }
            }
            left += advance as isize;
        }
    }

    /// The symbol of a curve in the legend.
    fn key(&mut self, curve: &Curve, x: f64, y: f64) {
        let colour = palette(curve.colour);
        match curve.shape {
            Shape::Band(_) => self.rectangle([x, x + 18.0], [y - 1.0, y + 8.0], colour, BAND),
            Shape::Bars(_) => self.rectangle([x, x + 18.0], [y - 1.0, y + 8.0], colour, 1.0),
            Shape::Level(_) | Shape::Mark(_) | Shape::Dashes(_) => {
                self.dashes([x, y + 4.0], [x + 18.0, y + 4.0], LINE, colour);
            }
            Shape::Dots(_) => self.dot([x + 9.0, y + 4.0], colour),
            Shape::Line(_) | Shape::Steps(_) => {
                self.stroke([x, y + 4.0], [x + 18.0, y + 4.0], LINE, colour);
            }
        }
    }

    fn dot(&mut self, at: [f64; 2], colour: Colour) {
        self.stroke(at, at, 5.0, colour);
    }

    fn curve(&mut self, curve: &Curve, x: &Fitted, y: &Fitted, width: f64) {
        let colour = palette(curve.colour);
        let place = |p: &[f64; 2]| [x.place(p[0]), y.place(p[1])];
        match &curve.shape {
            Shape::Line(points) => points
                .windows(2)
                .for_each(|p| self.stroke(place(&p[0]), place(&p[1]), width, colour)),
            Shape::Dashes(points) => points
                .windows(2)
                .for_each(|p| self.dashes(place(&p[0]), place(&p[1]), LINE, colour)),
            Shape::Dots(points) => points.iter().for_each(|p| self.dot(place(p), colour)),
            Shape::Steps(points) => points.windows(2).for_each(|p| {
                let ([x0, y0], [x1, y1]) = (place(&p[0]), place(&p[1]));
                self.stroke([x0, y0], [x1, y0], width, colour);
                self.stroke([x1, y0], [x1, y1], width, colour);
            }),
            // A band has a gap where its values are no numbers.
            Shape::Band(points) => {
                points.windows(2).filter(|p| p[0].iter().all(|v| v.is_finite())).for_each(|p| {
                    let sides = [x.place(p[0][0]), x.place(p[1][0])];
                    self.rectangle(sides, [y.place(p[0][1]), y.place(p[0][2])], colour, BAND);
                });
            }
            Shape::Bars(bars) => bars.iter().for_each(|&[x0, x1, low, high]| {
                self.rectangle(
                    [x.place(x0), x.place(x1)],
                    [y.place(low), y.place(high)],
                    colour,
                    1.0,
                );
            }),
            Shape::Level(v) => {
                self.dashes([x.from, y.place(*v)], [x.to, y.place(*v)], LINE, colour);
            }
            Shape::Mark(v) => self.dashes([x.place(*v), y.from], [x.place(*v), y.to], LINE, colour),
        }
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(file)
    }
}

/// The light palette of the style sheet.
fn palette(colour: u8) -> Colour {
    LIGHT[usize::from(colour) % LIGHT.len()]
}

/// The colour of the legend's text.
const INK: Colour = [0x1c, 0x24, 0x30];
/// The colour of the axes and their text.
const MUTED: Colour = [0x5c, 0x66, 0x73];
/// The colour of the grid.
const RULE: Colour = [0xe3, 0xe7, 0xec];
/// The width of a curve, as in the style sheet.
const LINE: f64 = 1.6;
/// The width of a curve that another one covers.
const UNDER: f64 = 5.0;
/// The opacity of a band, as in the style sheet.
const BAND: f64 = 0.3;
/// The pixels of the PNG per pixel of the SVG, and the glyph size that matches.
const SCALE: usize = 2;
const HEIGHT: RasterHeight = RasterHeight::Size24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, STYLE, Unit};

    fn decoded(plot: &Plot, size: Size) -> (u32, u32, Vec<u8>) {
        let file = plot.png(size).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width, info.height, pixels)
    }

    #[test]
    fn each_curve_leaves_its_colour_and_odd_numbers_do_no_harm() {
        let shapes = [
            Shape::Line(vec![[1.0, 1.0], [9.0, 9.0], [f64::NAN, 3.0]]),
            Shape::Steps(vec![[1.0, 2.0], [9.0, 8.0]]),
            Shape::Bars(vec![[1.0, 2.0, 0.0, 5.0]]),
            Shape::Dots(vec![[5.0, 5.0], [f64::INFINITY, 1.0]]),
            Shape::Dashes(vec![[1.0, 7.0], [9.0, 7.0]]),
            Shape::Level(4.0),
            Shape::Mark(3.0),
        ];
        let curves = shapes
            .into_iter()
            .zip(0..)
            .map(|(shape, colour)| Curve::new("", colour, shape))
            .collect();
        let (x, y) = (Axis::log("flows µ €", Unit::Count), Axis::linear("cost", Unit::Nanoseconds));
        let plot = Plot { title: String::new(), description: String::new(), x, y, curves };
        let (width, height, pixels) = decoded(&plot, Size { width: 300, height: 160 });
        assert_eq!((width, height), (600, 320));
        for colour in 0..7 {
            let seen = pixels.chunks_exact(3).filter(|pixel| *pixel == palette(colour)).count();
            assert!(seen > 15, "colour {colour} on {seen} pixels");
        }
        decoded(&Plot { curves: Vec::new(), ..plot }, Size { width: 10, height: 10 });
    }

    #[test]
    fn the_palette_is_that_of_the_style_sheet() {
        for colour in 0..7 {
            let [red, green, blue] = palette(colour);
            assert!(
                STYLE.contains(&format!("--c{colour}:#{red:02x}{green:02x}{blue:02x};"))
                    || STYLE.contains(&format!("--c{colour}:#{red:02x}{green:02x}{blue:02x}"))
            );
        }
    }
}
