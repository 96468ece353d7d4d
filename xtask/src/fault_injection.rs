//! `cargo xtask fault-injection`: builds the gateway and the harness of `testkit`, and runs the
//! harness on the gateway.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

/// Options of `cargo xtask fault-injection`.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    seed: u64,
    minutes: u64,
}

impl Options {
    /// Parses the command line. Without `--seed`, the seed is random; without `--minutes`, the run
    /// takes one minute.
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

/// Builds the gateway and the harness, and runs the harness. Returns false if a check failed; the
/// harness has printed the reason.
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
    // The folder of this program is Cargo's output folder.
    let here = std::env::current_exe()?;
    let folder = here.parent().context("the program's path has no parent folder")?;
    let seconds = options.minutes * 60;
    let status = Command::new(folder.join("fault-injection"))
        .arg(folder.join("tollgate"))
        .arg(options.seed.to_string())
        .arg(seconds.to_string())
        .status()?;
    Ok(status.success())
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
