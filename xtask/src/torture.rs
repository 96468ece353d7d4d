//! `cargo xtask torture`: builds the gateway and the harness of `testkit`, and runs the one against the other.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    seed: u64,
    minutes: u64,
}

impl Options {
    /// Reads the command line; a seed that is not given is drawn.
    pub fn parse(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            seed: RandomState::new().build_hasher().finish(),
            minutes: 1,
        };
        let mut arguments = arguments.iter();
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .with_context(|| format!("{name} needs a number"))?;
            let value = value
                .parse()
                .with_context(|| format!("{name} needs a number, not {value}"))?;
            match *name {
                "--seed" => options.seed = value,
                "--minutes" => options.minutes = value,
                _ => bail!("unknown option `{name}`"),
            }
        }
        Ok(options)
    }
}

/// False when something is not as it has to be; the run has said what.
pub fn run(root: &Path, options: &Options) -> anyhow::Result<bool> {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let build = [
        "build",
        "--package",
        "tollgate",
        "--package",
        "tollgate-testkit",
        "--bins",
    ];
    let built = Command::new(cargo).args(build).current_dir(root).status()?;
    ensure!(built.success(), "the gateway cannot be built");
    // Beside this program, wherever cargo puts what it builds.
    let here = std::env::current_exe()?;
    let folder = here.parent().context("a program is in a folder")?;
    let seconds = options.minutes * 60;
    let tortured = Command::new(folder.join("torture"))
        .arg(folder.join("tollgate"))
        .arg(options.seed.to_string())
        .arg(seconds.to_string())
        .status()?;
    Ok(tortured.success())
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_are_numbers() {
        let options = Options::parse(&["--minutes", "5", "--seed", "7"]).unwrap();
        assert_eq!(options, Options { seed: 7, minutes: 5 });
        assert_eq!(Options::parse(&[]).unwrap().minutes, 1);
        for wrong in [&["--seed"][..], &["--seed", "x"], &["--hours", "1"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
