use super::*;
use crate::load::{CatalogInput, EnabledProvider, load as load_catalog};
use crate::snapshot::Snapshot;

fn own(text: &str) -> Result<Vec<Arc<Template>>, LoadError> {
    load(&toml::from_str(text).unwrap())
}

fn find<'t>(templates: &'t [Arc<Template>], slug: &str) -> Option<&'t Arc<Template>> {
    templates.iter().find(|template| &*template.slug == slug)
}

/// Returns a catalog with these image models and the simulator's models.
fn catalog(models: &[(&str, &str)]) -> Snapshot {
    let entry = |(id, date): &(&str, &str)| {
        let text = format!(
            "type = \"image\"\ntargets = [\"local/x\"]\nprices = {{ image = \"1\" }}\nrelease_date = \"{date}\""
        );
        ((*id).to_owned(), toml::from_str(&text).unwrap())
    };
    let provider = |name: &str, preset: &str| EnabledProvider {
        name: name.to_owned(),
        preset: preset.to_owned(),
        simulated: preset == "sim",
        default_price: None,
        discovered: Vec::new(),
    };
    let input = CatalogInput {
        providers: vec![provider("local", "vllm"), provider("sim", "sim")],
        models: models.iter().map(entry).collect(),
        ..CatalogInput::default()
    };
    load_catalog(&input).unwrap()
}

#[test]
fn builtin_templates_are_complete() {
    let (images, videos): (BTreeMap<String, TemplateEntry>, BTreeMap<String, TemplateEntry>) =
        (toml::from_str(IMAGES).unwrap(), toml::from_str(VIDEOS).unwrap());
    assert!(
        images.keys().all(|slug| !videos.contains_key(slug)),
        "slugs are unique"
    );
    let templates = own("").unwrap();
    let count = |kind| templates.iter().filter(|template| template.kind == kind).count();
    assert_eq!(count(ModelKind::Image), images.len());
    assert_eq!(count(ModelKind::Video), videos.len());
    assert!(images.len() >= 14 && videos.len() >= 12);
    for template in &templates {
        let slug = &template.slug;
        assert_eq!(template.prompt.matches(PLACEHOLDER).count(), 1, "{slug}");
        assert!(template.prompt.len() > 200, "{slug}");
        for text in [&template.title, &template.description, &template.subject] {
            assert!(!text.is_empty() && !text.contains(PLACEHOLDER), "{slug}");
        }
        assert!(!template.prompt.contains(['\n', '\\']), "{slug}");
        assert!(!template.prompt.contains("  "), "{slug}");
        assert!(
            !template.subject.ends_with('.') || slug.contains("quote"),
            "{slug}"
        );
        assert_ne!(template.category, "other", "{slug}");
        assert!(template.params.aspect_ratio.is_some(), "{slug}");
        assert_eq!(
            template.params.duration.is_some(),
            template.kind == ModelKind::Video
        );
        assert!(!template.recommended.is_empty(), "{slug}");
    }
}

#[test]
fn the_simulator_can_do_all_of_them() {
    let snapshot = catalog(&[]);
    for template in own("").unwrap() {
        let model = template.recommended(snapshot.models(), None).unwrap();
        let (media, params) = (&model.media.entry, &template.params);
        let knows = |list: &[String], user_prompt: &Option<String>| {
            user_prompt.as_ref().is_none_or(|s| list.contains(s))
        };
        assert!(
            knows(&media.aspect_ratios, &params.aspect_ratio),
            "{}",
            template.slug
        );
        assert!(knows(&media.resolutions, &params.resolution), "{}", template.slug);
        assert!(knows(&media.qualities, &params.quality), "{}", template.slug);
        let duration = params.duration.as_ref();
        assert!(
            duration.is_none_or(|s| media.durations.contains(s)),
            "{}",
            template.slug
        );
    }
}

#[test]
fn prompts_blend() {
    let template = |prompt: &str| {
        let text = format!("[t]\ntype = \"image\"\nprompt = \"{prompt}\"\nsubject = \"a mug\"");
        find(&own(&text).unwrap(), "t").unwrap().clone()
    };
    let (placed, bare) = (
        template("A photo of {prompt}, lit softly."),
        template("On white."),
    );
    for (template, user_prompt, shown, expected) in [
        (
            &placed,
            Some("a red shoe"),
            None,
            "A photo of a red shoe, lit softly.",
        ),
        (
            &placed,
            Some(" a red shoe. "),
            None,
            "A photo of a red shoe, lit softly.",
        ),
        (
            &placed,
            Some("a {prompt}"),
            None,
            "A photo of a {prompt}, lit softly.",
        ),
        (&placed, None, None, "A photo of a mug, lit softly."),
        (&placed, Some(" "), None, "A photo of a mug, lit softly."),
        (
            &placed,
            None,
            Some("what is shown"),
            "A photo of what is shown, lit softly.",
        ),
        (
            &placed,
            Some("a hat"),
            Some("what is shown"),
            "A photo of a hat, lit softly.",
        ),
        (&bare, Some("a red shoe."), None, "On white. a red shoe."),
        (&bare, None, None, "On white."),
        (&bare, None, Some("what is shown"), "On white."),
    ] {
        assert_eq!(
            template.blend(user_prompt, shown),
            expected,
            "{user_prompt:?} {shown:?}"
        );
    }
}

#[test]
fn an_operator_adds_changes_and_switches_off() {
    let before = own("").unwrap();
    let after = own(
        "[poster]\nenabled = false\n[watercolour]\ntitle = \"Wash\"\nversion = 2\n\
                     [ours]\ntype = \"video\"\nprompt = \"A shop at night.\"",
    )
    .unwrap();
    assert_eq!(after.len(), before.len());
    assert!(find(&before, "poster").is_some() && find(&after, "poster").is_none());
    let (old, new) = (
        find(&before, "watercolour").unwrap(),
        find(&after, "watercolour").unwrap(),
    );
    assert_eq!((&*new.title, new.version), ("Wash", 2));
    assert_eq!((&new.prompt, &new.params), (&old.prompt, &old.params));
    let ours = find(&after, "ours").unwrap();
    assert_eq!(
        (ours.kind, &*ours.title, &*ours.category),
        (ModelKind::Video, "ours", "other")
    );
    let slugs: Vec<&str> = after.iter().map(|template| &*template.slug).collect();
    assert!(slugs.is_sorted(), "{slugs:?}");
}

#[test]
fn invalid_templates_name_the_path() {
    for (text, place) in [
        ("[Our]\ntype = \"image\"\nprompt = \"x\"", ""),
        ("[our]\nprompt = \"x\"", ".type"),
        ("[our]\ntype = \"chat\"\nprompt = \"x\"", ".type"),
        ("[our]\ntype = \"image\"", ".prompt"),
        ("[our]\ntype = \"image\"\nprompt = \" \"", ".prompt"),
        (
            "[our]\ntype = \"image\"\nprompt = \"{prompt} {prompt}\"\nsubject = \"x\"",
            ".prompt",
        ),
        ("[our]\ntype = \"image\"\nprompt = \"{prompt}\"", ".subject"),
        ("[poster]\ntitle = \" \"", ".title"),
        ("[poster]\nsupported_models = []", ".supported_models"),
        (
            "[poster]\nparams = { aspect_ratio = \"wide\" }",
            ".params.aspect_ratio",
        ),
        (
            "[poster]\nparams = { resolution = \"big\" }",
            ".params.resolution",
        ),
        ("[poster]\nparams = { num_images = 5 }", ".params.num_images"),
        (
            "[poster]\nparams = { output_format = \"gif\" }",
            ".params.output_format",
        ),
        ("[poster]\nparams = { duration = 5 }", ".params.duration"),
        ("[unboxing]\nparams = { duration = 0 }", ".params.duration"),
        ("[unboxing]\nparams = { quality = \"high\" }", ".params.quality"),
    ] {
        let error = own(text).unwrap_err();
        let slug = text.split([']', '[']).nth(1).unwrap();
        assert_eq!(error.path, format!("templates.\"{slug}\"{place}"), "{text}");
    }
    assert!(
        own("[poster]\nenabled = false\ntitle = \" \"").is_ok(),
        "disabled templates are not validated"
    );
}

#[test]
fn first_available_recommended_model_is_chosen() {
    let template = |lists: &str| {
        let text = format!("[t]\ntype = \"image\"\nprompt = \"x\"\n{lists}");
        find(&own(&text).unwrap(), "t").unwrap().clone()
    };
    let snapshot = catalog(&[
        ("a/one-1", "2025-01-01"),
        ("a/one-2", "2026-01-01"),
        ("b/two", "-"),
    ]);
    for (lists, recommended, supported) in [
        ("", "b/two", 4),
        (
            "recommended_models = [\"*three*\", \"a/*\", \"b/*\"]",
            "a/one-2",
            4,
        ),
        ("recommended_models = [\"a/one-1\"]", "a/one-1", 4),
        (
            "recommended_models = [\"a/*\"]\nsupported_models = [\"sim/*\"]",
            "sim/image",
            1,
        ),
        ("supported_models = [\"a/*\"]", "a/one-1", 2),
    ] {
        let template = template(lists);
        let models = snapshot.models();
        let default_model = snapshot.resolve("b/two");
        let found = template.recommended(models, default_model).unwrap();
        assert_eq!(&*found.id, recommended, "{lists}");
        let fits = models.iter().filter(|model| template.supports(model)).count();
        assert_eq!(fits, supported, "{lists}");
    }
    let none = template("supported_models = [\"c/*\"]");
    assert!(none.recommended(snapshot.models(), None).is_none());
}
