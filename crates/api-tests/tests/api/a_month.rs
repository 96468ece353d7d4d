//! Runs the commands of docs/a-month.md and compares their output with the page.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tokio::process::Command;
use tollgate_testkit::gateway::{Gateway, Options, Storage};

use crate::scene::BINARY;

const PAGE: &str = include_str!("../../../../docs/a-month.md");
/// The gateway's address in the page's commands.
const ADDRESS: &str = "127.0.0.1:8080";
/// Separator between the outputs of two blocks.
const END: &str = "-- end of a block --";

/// Returns the language and the text of each code block of the page.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fences = PAGE.split("```").skip(1).step_by(2);
    fences.map(|block| block.split_once('\n').unwrap()).collect()
}

/// Whether a line matches the expected one, in which `…` stands for any text.
fn agrees(expected: &str, found: &str) -> bool {
    match expected.split_once('…') {
        None => expected == found,
        Some((begin, end)) => {
            found.len() >= begin.len() + end.len() && found.starts_with(begin) && found.ends_with(end)
        }
    }
}

#[tokio::test]
async fn documented_commands_print_the_documented_output() {
    let blocks = blocks();
    let settings: String = blocks
        .iter()
        .filter(|(kind, _)| *kind == "toml")
        .map(|(_, text)| *text)
        .collect();
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let options = Options {
            config: settings.clone(),
            storage,
            ..Options::default()
        };
        let gateway = Gateway::start(BINARY, options).await;
        let address = gateway.address().to_string();
        let mut script = String::new();
        let mut expected = Vec::new();
        for (place, (kind, text)) in blocks.iter().enumerate() {
            if *kind != "sh" {
                continue;
            }
            let answer = blocks.get(place + 1).filter(|(kind, _)| *kind == "text");
            expected.push((*text, answer.map_or("", |(_, answer)| *answer)));
            script += &format!("{}echo '{END}'\n", text.replace(ADDRESS, &address));
        }
        assert_eq!(expected.len(), 12, "executed blocks");
        // `tollgate` in the page's commands runs the tested binary with this gateway's options.
        let command = gateway.command_line().command_text();
        let bin = gateway.folder().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::write(
            bin.join("tollgate"),
            format!("#!/bin/sh\nexec {command} \"$@\"\n"),
        )
        .unwrap();
        fs::set_permissions(bin.join("tollgate"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .arg("-c")
            .arg(&script)
            .env("PATH", path)
            .current_dir(gateway.folder())
            .output()
            .await
            .unwrap();
        let (out, errors) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let found: Vec<&str> = out.split(&format!("{END}\n")).collect();
        assert_eq!(found.len(), expected.len() + 1, "{out}{errors}");
        for ((block, expected), found) in expected.into_iter().zip(found) {
            let same = expected.lines().count() == found.lines().count()
                && expected
                    .lines()
                    .zip(found.lines())
                    .all(|(expected, found)| agrees(expected, found));
            assert!(
                same,
                "{storage:?}\n{block}\nsays\n{expected}\nand was\n{found}\n{errors}"
            );
        }
        gateway.finish().await;
    }
}
