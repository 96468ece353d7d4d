use std::os::unix::fs::PermissionsExt;

use crate::scratch::Scratch;
use crate::tools::ToolPaths;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Creates tools that run this script as ffmpeg.
fn scripted(folder: &Path, script: &str) -> Tools {
    let path = folder.join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Tools::at(&ToolPaths {
        ffmpeg: Some(path),
        max_concurrent: Some(1),
        ..ToolPaths::default()
    })
}

async fn run(script: &str, run: impl FnOnce(Run) -> Run) -> Result<Vec<u8>> {
    let scratch = Scratch::make()?;
    let tools = scripted(scratch.path(), script);
    tools.run(run(Run::bare(Program::Ffmpeg, LONG))).await
}

#[tokio::test]
async fn programs_read_stdin_without_a_shell() {
    let stdout_text = run("cat; echo \"$1\"", |run| {
        run.arg("; echo $HOME `id`").input(Bytes::from_static(b"in "))
    });
    assert_eq!(stdout_text.await.unwrap(), b"in ; echo $HOME `id`\n");
}

#[tokio::test]
async fn the_environment_is_filtered() {
    let stdout_text = run("env", |run| run).await.unwrap();
    let stdout_text = String::from_utf8(stdout_text).unwrap();
    for line in stdout_text.lines() {
        let name = line.split('=').next().unwrap();
        assert!(
            ["PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name),
            "{line}"
        );
    }
    assert!(stdout_text.contains("PATH="));
}

#[tokio::test]
async fn files_are_never_options() {
    let stdout_text = run("printf '%s' \"$*\"", |run| run.file("-rf").file("/a b"));
    assert_eq!(stdout_text.await.unwrap(), b"./-rf /a b");
}

#[tokio::test]
async fn the_end_of_stderr_is_reported() {
    let error = run("seq 1 5000 >&2; echo the reason >&2; exit 3", |run| run)
        .await
        .unwrap_err();
    let Error::Failed(Program::Ffmpeg, detail) = error else {
        panic!("{error}");
    };
    assert!(
        detail.contains("exit status: 3") && detail.ends_with("the reason"),
        "{detail}"
    );
    assert!(detail.len() < MAX_STDERR_BYTES + 100 && !detail.contains("\n3\n"));
}

#[tokio::test]
async fn too_much_output_is_a_failure() {
    let error = run("head -c 9000000 /dev/zero", |run| run).await.unwrap_err();
    assert!(error.to_string().contains("output is too long"), "{error}");
}

#[tokio::test]
async fn programs_are_killed_after_the_timeout() {
    let scratch = Scratch::make().unwrap();
    let tools = scripted(scratch.path(), "exec tail -f /dev/null");
    let limit = Duration::from_millis(50);
    let error = tools.run(Run::bare(Program::Ffmpeg, limit)).await.unwrap_err();
    assert!(
        matches!(error, Error::TooSlow(Program::Ffmpeg, of) if of == limit),
        "{error}"
    );
    // The permit is released.
    assert_eq!(tools.running().available_permits(), 1);
}

/// Waits until a file contains a line, and returns the line.
async fn line_of(path: &Path) -> String {
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn dropping_the_future_kills_the_program_and_removes_partial_files() {
    let scratch = Scratch::make().unwrap();
    let tools = scripted(
        scratch.path(),
        "echo begun > \"$1\"; echo $$ > \"$2\"; exec tail -f /dev/null",
    );
    let (video, process) = (scratch.file("video.mp4"), scratch.file("process"));
    let make = async {
        let unfinished = PartialFile::at(&video);
        let run = Run::bare(Program::Ffmpeg, LONG)
            .file(unfinished.part())
            .file(&process);
        tools.run(run).await?;
        unfinished.finish()
    };
    let id = tokio::select! {
        done = make => panic!("it goes on for ever: {done:?}"),
        id = line_of(&process) => id,
    };
    assert!(!video.exists() && !scratch.file("video.mp4.part").exists());
    let status = PathBuf::from(format!("/proc/{id}/stat"));
    loop {
        // The process has ended, or is a zombie.
        match std::fs::read_to_string(&status) {
            Ok(stat) if !stat.contains(") Z ") => tokio::task::yield_now().await,
            _ => break,
        }
    }
    assert_eq!(tools.running().available_permits(), 1);
}

#[tokio::test]
async fn concurrency_is_limited() {
    let scratch = Scratch::make().unwrap();
    // If two runs were concurrent, `mkdir` would fail in the second one.
    let tools = scripted(
        scratch.path(),
        "mkdir \"$1\" && head -c 4000000 /dev/urandom | cksum && rmdir \"$1\"",
    );
    let folder = scratch.file("turn");
    let one = || tools.run(Run::bare(Program::Ffmpeg, LONG).file(&folder));
    let (first, second, third) = tokio::join!(one(), one(), one());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
}

#[test]
fn scratch_folders_are_removed_with_their_content() {
    let scratch = Scratch::make().unwrap();
    let path = scratch.file("file");
    std::fs::write(&path, "text").unwrap();
    drop(scratch);
    assert!(!path.exists());
}
