//! JSON numbers that are not yet converted.

/// JSON number that is not yet converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number<'a> {
    /// Verbatim text of the number.
    pub(crate) token: &'a str,
    /// Whether the number has neither fraction nor exponent.
    pub(crate) integral: bool,
}

impl Number<'_> {
    /// Returns the value if it is an integer that fits into 64 bits. `1.0` is not an integer here:
    /// the common providers refuse it for integer parameters. Neither is `-0`, which many parsers
    /// read as a float.
    pub(crate) fn as_i64(self) -> Option<i64> {
        let is_integer = self.integral && self.token != "-0";
        if is_integer { self.token.parse().ok() } else { None }
    }

    /// Returns the nearest double-precision number.
    pub(crate) fn as_f64(self) -> f64 {
        self.token.parse().unwrap_or(f64::NAN)
    }
}

/// Returns the length of the number at the start of `bytes` and whether it is integral; `None` if
/// it is malformed.
pub(super) fn scan(bytes: &[u8]) -> Option<(usize, bool)> {
    let negative = usize::from(bytes.first() == Some(&b'-'));
    let mut at = negative + digits(bytes, negative);
    if at == negative || (at > negative + 1 && bytes.get(negative) == Some(&b'0')) {
        return None;
    }
    let mut integral = true;
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(bytes, at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
        integral = false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(bytes, at + 1 + sign);
        if exponent == 0 {
            return None;
        }
        at += 1 + sign + exponent;
        integral = false;
    }
    Some((at, integral))
}

/// Whether a token that [`scan`] accepted has a finite double-precision value; `1e999` does not.
pub(super) fn is_finite(token: &str) -> bool {
    // Fast path for short tokens whose exponent has at most two characters.
    let short = token.len() < 300;
    let exponent = token.bytes().rposition(|byte| matches!(byte, b'e' | b'E'));
    let small_exponent = exponent.is_none_or(|at| token.len() - at <= 3);
    (short && small_exponent) || token.parse::<f64>().is_ok_and(f64::is_finite)
}

fn digits(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}
