//! A whole number and a unit, as durations and sizes are written.

/// Why a text is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing but blanks.
    Empty,
    /// A sign.
    Signed,
    /// No digits at the start.
    NotANumber,
    /// A number alone.
    NoUnit,
    /// A decimal point.
    Fraction,
    /// A number and something that is no unit.
    UnknownUnit,
    /// More than fits into 64 bits, in the smallest unit.
    TooLarge,
}

/// Reads a text in one of these units, each with its size in the smallest one, in which the answer is.
pub(super) fn parse(text: &str, units: &[(&str, u64)]) -> Result<u64, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::Empty);
    }
    if text.starts_with(['-', '+']) {
        return Err(Fault::Signed);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(Fault::NotANumber);
    }
    if unit.is_empty() {
        return Err(Fault::NoUnit);
    }
    if unit.starts_with(['.', ',']) {
        return Err(Fault::Fraction);
    }
    let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let scale = scale.ok_or(Fault::UnknownUnit)?;
    // Digits alone fail to parse only when there are too many of them.
    let number: u64 = number.parse().map_err(|_| Fault::TooLarge)?;
    number.checked_mul(scale).ok_or(Fault::TooLarge)
}
