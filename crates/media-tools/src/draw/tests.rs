use std::collections::BTreeSet;

use super::*;

fn sketch(seed: u64, prompt: &str) -> Sketch {
    Sketch::new(Dimensions::new(96, 64), seed, prompt)
}

#[test]
fn equal_sketches_give_equal_images() {
    let once = sketch(7, "a lake").draw().unwrap();
    assert_eq!(once, sketch(7, "a lake").draw().unwrap());
    assert_ne!(once, sketch(8, "a lake").draw().unwrap());
    assert_eq!(once.size(), Dimensions::new(96, 64));
}

#[test]
fn every_motif_is_drawn_at_any_size() {
    let prompts = [
        "hills", "alps", "a fox", "the sea", "dunes", "a city", "music", "a logo",
    ];
    let mut images = BTreeSet::new();
    for prompt in prompts {
        for (width, height) in [(1, 1), (3, 200), (200, 3), (65, 40)] {
            let sketch = Sketch::new(Dimensions::new(width, height), 5, prompt);
            let drawn = sketch.draw().unwrap();
            assert_eq!(drawn.size(), Dimensions::new(width, height), "{prompt}");
        }
        images.insert(sketch(5, prompt).scene().unwrap().rgba().to_vec());
    }
    assert_eq!(images.len(), prompts.len());
}

#[test]
fn words_choose_the_motif_and_the_hour() {
    let words = |text: &str| sketch(0, text).words();
    for seed in 0..20 {
        assert_eq!(Motif::choose(&words("A City, by night."), seed), Motif::City);
        assert!(Palette::choose(&words("A City, by night."), seed).is_dark());
        assert_eq!(
            Motif::choose(&words("snow on the HARBOUR"), seed),
            Motif::Mountains
        );
        assert!(!Palette::choose(&words("noon"), seed).is_dark());
    }
    let any: BTreeSet<String> = (0..200)
        .map(|seed| format!("{:?}", Motif::choose(&[], seed)))
        .collect();
    assert_eq!(any.len(), 8);
}

/// Returns the number of pixels with this color.
fn count(image: &Image, colour: [u8; 4]) -> usize {
    image
        .rgba()
        .chunks_exact(4)
        .filter(|pixel| *pixel == colour)
        .count()
}

#[test]
fn every_image_is_marked_as_simulated() {
    const CHIP: [u8; 4] = [0xFF, 0xB8, 0x2E, 0xFF];
    for (width, height) in [(64, 64), (96, 64), (1024, 256), (300, 700)] {
        let sketch = Sketch::new(Dimensions::new(width, height), 1, "noon");
        assert_eq!(count(&sketch.scene().unwrap(), CHIP), 0, "{width}x{height}");
        assert!(count(&sketch.draw().unwrap(), CHIP) > 300, "{width}x{height}");
    }
}

#[test]
fn banners_show_the_prompt_in_available_letters() {
    let draw = |prompt: &str| {
        let sketch = Sketch {
            palette: Some(Palette::choose(&[], 1)),
            ..Sketch::new(Dimensions::new(400, 100), 1, prompt)
        };
        sketch.banner().unwrap()
    };
    let without = draw("");
    assert_ne!(draw("words"), without);
    assert_ne!(draw("words"), draw("other words"));
    assert_eq!(draw("äßé words"), draw("ASE WORDS"));
    assert_eq!(draw("漢字"), without);
    assert_eq!(draw(&"unbreakable".repeat(40)), without);
    assert_eq!(
        draw(&"many short words ".repeat(40)),
        draw(&"many short words ".repeat(80))
    );
}

#[test]
fn images_of_a_set_share_a_scene() {
    let numbered = |number| Sketch {
        number: Some((number, 3)),
        ..sketch(4, "hills at dawn")
    };
    let scenes: Vec<Image> = (1..=3).map(|number| numbered(number).scene().unwrap()).collect();
    let [first, second, third] = scenes.as_slice() else {
        panic!("three");
    };
    assert_ne!(first, second);
    assert_ne!(second, third);
    // The sky is unchanged far from the moving light.
    let corner = |image: &Image| image.rgba()[..12].to_vec();
    let near = |a: &[u8], b: &[u8]| a.iter().zip(b).all(|(a, b)| a.abs_diff(*b) < 40);
    assert!(near(&corner(first), &corner(third)));
}

#[test]
fn palettes_are_read_from_images_and_serialized() {
    let red = [250_u8, 10, 10, 255].repeat(32 * 32);
    let palette = Palette::of(&Image::from_rgba(Dimensions::new(32, 32), red).unwrap());
    assert!(
        palette
            .sky
            .iter()
            .all(|colour| colour >> 16 > 200 && colour & 0xFF < 40)
    );
    let stored = serde_json::to_string(&palette).unwrap();
    assert_eq!(serde_json::from_str::<Palette>(&stored).unwrap(), palette);
}

#[test]
fn oversized_sketches_are_rejected() {
    for (width, height) in [(0, 5), (5, 0), (16_385, 1), (16_000, 16_000)] {
        let refused = Sketch::new(Dimensions::new(width, height), 1, "").draw();
        assert!(matches!(refused, Err(Error::TooLarge(_))), "{width}x{height}");
    }
}

#[test]
fn objects_have_the_colour_named_before_them() {
    let close = |pixel: &[u8], colour: [u8; 3]| {
        pixel
            .iter()
            .zip(colour)
            .all(|(is, wanted)| is.abs_diff(wanted) < 24)
    };
    let share = |prompt: &str, colour: [u8; 3]| {
        let sketch = Sketch::new(Dimensions::new(160, 120), 3, prompt);
        let scene = sketch.scene().unwrap();
        let found = scene
            .rgba()
            .chunks_exact(4)
            .filter(|pixel| close(&pixel[..3], colour))
            .count();
        found as f32 / sketch.size.pixels() as f32
    };
    let (red, blue) = ([0xD6, 0x2B, 0x2B], [0x2F, 0x6F, 0xD0]);
    for thing in ["boat", "cat", "tree", "house", "lighthouse", "sun"] {
        let (with, without) = (format!("a red {thing}"), format!("a {thing}"));
        assert!(share(&with, red) > 0.01, "{with}: {}", share(&with, red));
        assert!(
            share(&format!("a blue {thing}"), red) < share(&with, red) / 4.0,
            "{thing}"
        );
        let scene = |prompt: &str| sketch(3, prompt).scene().unwrap();
        assert_ne!(scene(&with), scene(&without));
    }
    assert!(share("a blue boat", blue) > 0.01);
}

#[test]
fn a_lone_colour_tones_the_image() {
    let mean = |image: &Image| {
        let pixels = image.rgba().chunks_exact(4);
        pixels.fold([0_u64; 3], |sum, pixel| {
            [0, 1, 2].map(|part| sum[part] + u64::from(pixel[part]))
        })
    };
    for (prompt, max) in [("make it red", 0), ("make it green", 1), ("make it blue", 2)] {
        for seed in 0..5 {
            let sketch = sketch(seed, prompt);
            let sums = mean(&sketch.scene().unwrap());
            assert!(
                (0..3).all(|part| part == max || sums[part] < sums[max]),
                "{prompt} {seed}: {sums:?}"
            );
            let grey = Image::from_rgba(Dimensions::new(4, 1), [120, 120, 120, 255].repeat(4)).unwrap();
            let toned = mean(&sketch.toned(&grey).unwrap());
            assert!(
                (0..3).all(|part| part == max || toned[part] < toned[max]),
                "{prompt}: {toned:?}"
            );
        }
    }
    assert!(
        sketch(1, "a red boat")
            .toned(&sketch(1, "x").draw().unwrap())
            .is_none()
    );
}

#[test]
fn wave_motif_needs_no_sea_words() {
    let words = |text: &str| sketch(0, text).words();
    for (prompt, motif) in [
        ("waves on a beach", Motif::Sea),
        ("a lighthouse", Motif::Sea),
        ("a cat", Motif::Hills),
        ("a cat in the city", Motif::City),
        ("many trees", Motif::Forest),
    ] {
        assert_eq!(Motif::choose(&words(prompt), 9), motif, "{prompt}");
    }
}

/// A banner is detected after lossy encoding, and an opaque one hides the old one completely.
#[test]
fn banners_are_found_and_removed() {
    for (width, height) in [(96, 64), (640, 360), (1024, 1024), (360, 640)] {
        let sketch = Sketch::new(Dimensions::new(width, height), 3, "a quiet harbour");
        let (scene, drawn) = (sketch.scene().unwrap(), sketch.draw().unwrap());
        assert_eq!(Sketch::without_banner(&scene), None);
        let plain = Sketch::without_banner(&drawn).unwrap();
        let stored = plain.size();
        assert!(
            stored.width == width && stored.height < height && stored.height > height * 2 / 3,
            "{stored:?}"
        );
        assert_eq!(Some(plain), scene.cropped(stored));
        let file = drawn.encode(crate::image::Encoding::Jpeg(70)).unwrap();
        let lossy = Image::decode(&file).unwrap();
        assert_eq!(Sketch::without_banner(&lossy).unwrap().size(), stored);
        let again = Sketch {
            hides_banner: true,
            ..sketch.clone()
        };
        let (mut over, mut fresh) = (drawn.clone(), scene.clone());
        again.sign(&mut over);
        again.sign(&mut fresh);
        assert_eq!(over, fresh, "nothing of the one below is seen");
    }
}
