//! The colours of curves, for light and for dark pages. Style sheets and pictures have the same
//! colours; a test compares them.

/// A colour: red, green and blue.
pub type Colour = [u8; 3];

/// The colours on a white card.
pub const LIGHT: [Colour; 7] = [
    [0x00, 0x72, 0xb2],
    [0xd5, 0x5e, 0x00],
    [0x00, 0x9e, 0x73],
    [0xcc, 0x79, 0xa7],
    [0x4d, 0x57, 0x63],
    [0x7a, 0x4a, 0x00],
    [0x4a, 0x1d, 0x96],
];

/// The colours on a dark card.
pub const DARK: [Colour; 7] = [
    [0x4e, 0xa8, 0xde],
    [0xff, 0x8f, 0x45],
    [0x3c, 0xc7, 0x9a],
    [0xd6, 0x5f, 0xa8],
    [0xc3, 0xcc, 0xd6],
    [0xf2, 0xbd, 0x4b],
    [0x9b, 0x7c, 0xf0],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::STYLE;

    /// The cards on which curves are drawn, as in `report.css`.
    const CARDS: [(Colour, [Colour; 7]); 2] = [([255; 3], LIGHT), ([0x1a, 0x20, 0x29], DARK)];

    fn linear(colour: Colour) -> [f64; 3] {
        colour.map(|value| {
            let part = f64::from(value) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { libm::pow((part + 0.055) / 1.055, 2.4) }
        })
    }

    /// The contrast ratio of WCAG 2.
    fn contrast(a: Colour, b: Colour) -> f64 {
        let luminance = |colour| {
            let [red, green, blue] = linear(colour);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_colour_has_the_contrast_that_graphics_need() {
        let page = include_str!("../html/report.css");
        assert!(page.contains("--card:#fff;") && page.contains("--card:#1a2029;"));
        for (card, colours) in CARDS {
            for colour in colours {
                let ratio = contrast(card, colour);
                assert!(ratio >= 3.0, "{colour:02x?} on {card:02x?}: {ratio:.2}");
            }
        }
    }

    #[test]
    fn the_style_sheet_has_the_same_colours() {
        let tokens = |colours: [Colour; 7]| {
            let token = |(n, [r, g, b]): (usize, Colour)| format!("--c{n}:#{r:02x}{g:02x}{b:02x}");
            colours.into_iter().enumerate().map(token).collect::<Vec<_>>().join(";")
        };
        assert_eq!(STYLE.matches(&tokens(LIGHT)).count(), 2, "on screen and in print");
        assert_eq!(STYLE.matches(&tokens(DARK)).count(), 1);
    }
}
