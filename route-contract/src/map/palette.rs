//! A colour for each family: text on a background that can be read, in light and in dark.

/// Two colours, `#rrggbb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colours {
    /// Behind the text.
    pub background: String,
    /// The text.
    pub text: String,
    /// A line beside it.
    pub line: String,
}

/// The colours of the n-th family on a light page.
pub fn light(index: usize) -> Colours {
    let hue = hue(index);
    Colours {
        background: hex(hue, 0.75, 0.90),
        text: hex(hue, 0.85, 0.17),
        line: hex(hue, 0.75, 0.33),
    }
}

/// The colours of the n-th family on a dark page.
pub fn dark(index: usize) -> Colours {
    let hue = hue(index);
    Colours {
        background: hex(hue, 0.45, 0.19),
        text: hex(hue, 0.85, 0.90),
        line: hex(hue, 0.65, 0.72),
    }
}

/// The golden angle: neighbours are far apart, however many families there are. The first is blue.
fn hue(index: usize) -> f64 {
    // Beyond a few thousand families the angle is no longer exact; there are at most a thousand.
    (215.0 + (index % 4096) as f64 * 137.508) % 360.0
}

/// `#rrggbb` of a hue in degrees, and saturation and lightness from 0 to 1.
fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let spread = saturation * lightness.min(1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let value = lightness - spread * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round().clamp(0.0, 255.0) as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast of two colours as WCAG 2.2 defines it: from 1 to 21.
    fn contrast(left: &str, right: &str) -> f64 {
        let luminance = |colour: &str| {
            let part = |at: usize| {
                let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        let (left, right) = (luminance(left), luminance(right));
        (left.max(right) + 0.05) / (left.min(right) + 0.05)
    }

    #[test]
    fn every_family_can_be_read_on_a_light_and_on_a_dark_page() {
        for index in 0..1000 {
            for (colours, page) in [(light(index), "#ffffff"), (dark(index), "#14171c")] {
                let text = contrast(&colours.text, &colours.background);
                assert!(text >= 4.5, "{index}: text {text:.2} in {colours:?}");
                let line = contrast(&colours.line, page);
                assert!(line >= 3.0, "{index}: line {line:.2} in {colours:?}");
            }
        }
    }
}
