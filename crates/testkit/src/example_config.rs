//! The example configuration of the repository, `tollgate.example.toml`.

/// The file as users copy it: every setting is commented out.
pub const EXAMPLE: &str = include_str!("../../../tollgate.example.toml");

/// Returns the file with its commented settings enabled.
pub fn uncommented() -> String {
    let setting = |line: &str| {
        line.strip_prefix('#')
            .filter(|rest| !rest.is_empty() && !rest.starts_with([' ', '#']))
            .map(str::to_owned)
    };
    EXAMPLE
        .lines()
        .map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}
