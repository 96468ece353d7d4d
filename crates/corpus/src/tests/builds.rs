use std::fs::File;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use super::fixture::{Fixture, context, names, paths, proceed, rebuild, search, update};
use crate::{Corpus, CorpusError, Skipped};

use tollgate_upstream::search::{SearchBackend, SearchQuery};

#[tokio::test]
async fn only_changes_of_content_cause_a_build() {
    let fixture = Fixture::new(&[("a.md", "alpha"), ("sub/b.txt", "beta")]);
    fixture.set_time("a.md", 1_000);
    let corpus = fixture.open();
    assert!(!corpus.status().is_built);
    assert_eq!(update(&corpus).await.unwrap().unwrap().documents, 2);

    type Change = fn(&Fixture);
    let changes: &[(&str, Change, bool)] = &[
        ("nothing", |_| {}, false),
        ("time", |fixture| fixture.set_time("a.md", 2_000), false),
        ("time, again", |_| {}, false),
        (
            "content of the same size",
            |fixture| {
                fixture.write("a.md", "gamma");
                fixture.set_time("a.md", 3_000);
            },
            true,
        ),
        ("size", |fixture| fixture.write("a.md", "gamma delta"), true),
        ("new file", |fixture| fixture.write("c.txt", "epsilon"), true),
        ("hidden file", |fixture| fixture.write(".c.txt", "zeta"), false),
        (
            "removed file",
            |fixture| std::fs::remove_file(fixture.documents.join("sub/b.txt")).unwrap(),
            true,
        ),
        (
            "renamed file",
            |fixture| {
                std::fs::rename(fixture.documents.join("a.md"), fixture.documents.join("d.md")).unwrap();
            },
            true,
        ),
    ];
    for (name, change, is_built) in changes {
        change(&fixture);
        assert_eq!(update(&corpus).await.unwrap().is_some(), *is_built, "{name}");
        // Another process comes to the same result.
        assert_eq!(update(&fixture.open()).await.unwrap(), None, "{name}");
    }
    assert_eq!(paths(&corpus, "gamma").await, ["d.md"]);
    assert_eq!(paths(&corpus, "alpha beta").await, [""; 0]);
    assert_eq!(paths(&corpus, "epsilon").await, ["c.txt"]);
}

#[tokio::test]
async fn skipped_files_are_counted() {
    let fixture = Fixture::new(&[
        ("good.md", "harbour"),
        ("page.html", "<p>harbour"),
        (".hidden/a.md", "harbour"),
        (".hidden/b.md", "harbour"),
        ("lines.jsonl", "{\"text\":\"harbour\"}\n{}\n"),
    ]);
    fixture.write("binary.txt", b"harbour\0");
    fixture.write("latin.txt", b"caf\xe9");
    let large = File::create(fixture.documents.join("large.txt")).unwrap();
    large.set_len((20 << 20) + 1).unwrap();
    let outside = fixture.documents.parent().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret.md"), "harbour").unwrap();
    for (target, link) in [
        (outside.join("secret.md"), "secret.md"),
        (outside.clone(), "folder"),
        (fixture.documents.join("missing"), "missing.md"),
        (fixture.documents.join("good.md"), "inside.md"),
        (fixture.documents.clone(), "loop"),
    ] {
        std::os::unix::fs::symlink(target, fixture.documents.join(link)).unwrap();
    }
    let corpus = fixture.open();
    let stats = rebuild(&corpus).await;
    let skipped = Skipped {
        too_large: 1,
        binary: 2,
        hidden: 1,
        links: 4,
        unsupported: 1,
        unreadable: 0,
        malformed: 1,
    };
    assert_eq!((stats.documents, stats.passages, stats.skipped), (3, 3, skipped));
    assert_eq!(corpus.status().skipped.total(), 10);
    let mut found = paths(&corpus, "harbour").await;
    found.sort();
    assert_eq!(found, ["good.md", "inside.md", "lines.jsonl/1"]);
}

#[tokio::test]
async fn unfinished_and_damaged_indexes_are_not_used() {
    let fixture = Fixture::new(&[("a.md", "alpha")]);
    drop(fixture.built().await);
    assert_eq!(fixture.index_folders(), ["index-1", "lock"]);
    // A crash left a build without its manifest, and a disk error a damaged index.
    let unfinished = fixture.index.join("unfinished-2");
    let damaged = fixture.index.join("index-9");
    std::fs::create_dir(&unfinished).unwrap();
    std::fs::create_dir(&damaged).unwrap();
    for name in names(&fixture.index.join("index-1")) {
        let file = fixture.index.join("index-1").join(&name);
        if name != "manifest.json" {
            std::fs::copy(&file, unfinished.join(&name)).unwrap();
        }
        let content = std::fs::read(&file).unwrap();
        std::fs::write(damaged.join(&name), &content[..content.len() / 2]).unwrap();
    }
    let corpus = fixture.open();
    assert_eq!(paths(&corpus, "alpha").await, ["a.md"]);
    fixture.write("b.md", "alpha beta");
    rebuild(&corpus).await;
    assert_eq!(fixture.index_folders(), ["index-10", "lock"]);
    assert_eq!(paths(&fixture.open(), "beta").await, ["b.md"]);
}

#[tokio::test]
async fn a_stopped_build_leaves_the_old_index() {
    let fixture = Fixture::new(&[("a.md", "alpha"), ("b.md", "beta")]);
    let corpus = fixture.built().await;
    fixture.write("a.md", "changed text");
    let mut seen = Vec::new();
    let (sender, receiver) = mpsc::channel();
    let stopped = corpus.rebuild(move |progress| {
        sender.send(progress).unwrap();
        ControlFlow::Break(())
    });
    assert!(matches!(stopped.await, Err(CorpusError::Stopped)));
    seen.extend(
        receiver
            .iter()
            .map(|progress| (progress.files, progress.total_files, progress.documents)),
    );
    assert_eq!(seen, [(1, 2, 1)]);
    assert_eq!(paths(&corpus, "alpha").await, ["a.md"]);
    assert_eq!(fixture.index_folders(), ["index-1", "lock"]);
    assert!(!corpus.status().is_building);
}

#[tokio::test]
async fn an_index_with_other_settings_is_rebuilt() {
    let mut fixture = Fixture::new(&[("a.md", "alpha")]);
    drop(fixture.built().await);
    fixture.url_prefix = Some("https://docs.example.com/x".to_owned());
    let corpus = fixture.open();
    assert!(!corpus.status().is_built);
    assert!(update(&corpus).await.unwrap().is_some());
    assert_eq!(
        search(&corpus, "alpha").await[0].url,
        "https://docs.example.com/x/a.md"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_continue_during_a_build() {
    let fixture = Fixture::new(&[]);
    for number in 0..200 {
        fixture.write(&format!("{number}.txt"), format!("common word{number}"));
    }
    let corpus = fixture.built().await;
    for number in 0..200 {
        fixture.write(&format!("{number}.txt"), format!("common new{number}"));
    }
    let (started, is_started) = tokio::sync::oneshot::channel();
    let (resume, wait) = mpsc::channel::<()>();
    let mut started = Some(started);
    let builder = corpus.clone();
    let build = builder.rebuild(move |_| {
        if let Some(started) = started.take() {
            started.send(()).unwrap();
            wait.recv().unwrap();
        }
        ControlFlow::Continue(())
    });
    let is_done = Arc::new(AtomicBool::new(false));
    let queries = async {
        is_started.await.unwrap();
        assert!(corpus.status().is_building);
        assert!(matches!(update(&corpus).await, Err(CorpusError::Busy)));
        assert!(matches!(update(&fixture.open()).await, Err(CorpusError::Busy)));
        assert_eq!(paths(&corpus, "word7").await, ["7.txt"]);
        resume.send(()).unwrap();
        while !is_done.load(Ordering::Relaxed) {
            // Each search sees the old index or the new one, never a mixture.
            let hits = search(&corpus, "common").await;
            let is_new = |hit: &tollgate_upstream::search::SearchHit| hit.snippet.contains("new");
            assert_eq!(hits.len(), 10);
            assert!(hits.iter().all(is_new) || !hits.iter().any(is_new));
        }
    };
    let build = async {
        let stats = build.await.unwrap();
        is_done.store(true, Ordering::Relaxed);
        stats
    };
    let (stats, ()) = tokio::join!(build, queries);
    assert_eq!(stats.documents, 200);
    assert_eq!(paths(&corpus, "new7").await, ["7.txt"]);
}

/// An old reader must not depend on the files that a newer build has removed.
#[tokio::test]
async fn a_reader_of_another_process_continues_on_a_removed_index() {
    let fixture = Fixture::new(&[("a.md", "alpha")]);
    let old = fixture.built().await;
    fixture.write("a.md", "beta");
    let other = fixture.open();
    rebuild(&other).await;
    assert_eq!(fixture.index_folders(), ["index-2", "lock"]);
    assert_eq!(paths(&old, "alpha").await, ["a.md"]);
    // The index of the other process is used instead of a new build.
    assert_eq!(update(&old).await.unwrap(), None);
    assert_eq!(paths(&old, "beta").await, ["a.md"]);
}

#[tokio::test]
async fn the_folder_of_the_index_is_not_indexed() {
    let mut fixture = Fixture::new(&[("a.md", "alpha")]);
    fixture.index = fixture.documents.join("index");
    let corpus = fixture.built().await;
    assert_eq!(update(&corpus).await.unwrap(), None);
    assert_eq!(corpus.status().documents, 1);
}

#[tokio::test]
async fn missing_folders_and_indexes_are_errors() {
    let fixture = Fixture::new(&[]);
    let query = SearchQuery::default();
    let error = fixture.open().search(&context(), &query).await.unwrap_err();
    assert!(error.to_string().contains("no index yet"), "{error}");
    assert_eq!(search(&fixture.built().await, "x").await, []);
    std::fs::remove_dir(&fixture.documents).unwrap();
    let missing = fixture.open().rebuild(proceed).await;
    assert!(matches!(missing, Err(CorpusError::Io { .. })));
}

#[test]
fn settings_are_checked() {
    let fixture = Fixture::new(&[]);
    for (name, prefix, is_valid) in [
        ("handbook", None, true),
        ("2024_notes-b", Some("https://docs.example.com"), true),
        ("", None, false),
        ("-a", None, false),
        ("A", None, false),
        ("a/b", None, false),
        ("..", None, false),
        (&"a".repeat(65), None, false),
        ("a", Some("ftp://x"), false),
        ("a", Some("https:///x"), false),
        ("a", Some("https://x?q="), false),
    ] {
        let mut settings = fixture.settings();
        settings.name = name.to_owned();
        settings.url_prefix = prefix.map(str::to_owned);
        assert_eq!(Corpus::open(settings).is_ok(), is_valid, "{name} {prefix:?}");
    }
}
