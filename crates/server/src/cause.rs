//! Error texts for operators.

/// Formats an error and its causes on one line, separated by colons. Omits a cause whose text the
/// line already contains.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.contains(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_written_once() {
        let inner = std::io::Error::other("the disk is full");
        let error = anyhow::Error::new(inner)
            .context("cannot write: the disk is full")
            .context("cannot start");
        assert_eq!(chain(&error), "cannot start: cannot write: the disk is full");
        let error = anyhow::anyhow!("x").context("y");
        assert_eq!(chain(&error), "y: x");
    }
}
