use super::*;

#[tokio::test]
async fn installed_programs_report_their_version() {
    let tools = Tools::find();
    let missing = tools.missing();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(tools.can_render() && tools.can_speak() && tools.can_caption());
    let versions = tools.versions().await;
    for ((program, version_output), (expected, begins)) in versions.iter().zip([
        (Program::Ffmpeg, "ffmpeg version "),
        (Program::Ffprobe, "ffprobe version "),
        (Program::Espeak, "eSpeak NG text-to-speech: "),
    ]) {
        assert_eq!(*program, expected);
        assert!(version_output.starts_with(begins), "{version_output}");
    }
    assert_eq!(versions.len(), 3);
    // The address is the same, so the versions are cached.
    assert!(std::ptr::eq(versions, tools.clone().versions().await));
}

#[tokio::test]
async fn missing_programs_are_reported_with_install_steps() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let tools = Tools::at(&ToolPaths {
        ffmpeg: Some(text),
        espeak: Some("/nowhere/espeak-ng".into()),
        font: Some(folder.path().into()),
        ..ToolPaths::default()
    });
    let packages: Vec<(&str, &str)> = tools
        .missing()
        .iter()
        .map(|one| (one.name, one.package))
        .collect();
    let expected = [
        ("ffmpeg", "ffmpeg"),
        ("espeak-ng", "espeak-ng"),
        ("DejaVu Sans", "fonts-dejavu-core"),
    ];
    assert_eq!(packages, expected);
    assert_eq!(
        how_to_install(&tools.missing()),
        "apt-get install ffmpeg espeak-ng fonts-dejavu-core"
    );
    assert!(!tools.can_render() && !tools.can_speak() && !tools.can_caption());
    let version_output = tools.font().unwrap_err().to_string();
    assert_eq!(
        version_output,
        "the font DejaVu Sans is not installed. Install it: apt-get install fonts-dejavu-core"
    );
    let run = tools.run(Run::bare(Program::Espeak, TIMEOUT)).await;
    let version_output = run.unwrap_err().to_string();
    assert_eq!(
        version_output,
        "espeak-ng is not installed. Install it: apt-get install espeak-ng"
    );
    assert_eq!(tools.versions().await.len(), 1);
}
