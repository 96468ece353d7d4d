use std::collections::BTreeSet;

use super::*;

fn sketch(seed: u64, prompt: &str) -> Sketch {
    Sketch::new(Dimensions::new(96, 64), seed, prompt)
}

#[test]
fn the_same_sketch_is_the_same_picture() {
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
    let mut pictures = BTreeSet::new();
    for prompt in prompts {
        for (width, height) in [(1, 1), (3, 200), (200, 3), (65, 40)] {
            let sketch = Sketch::new(Dimensions::new(width, height), 5, prompt);
            let drawn = sketch.draw().unwrap();
            assert_eq!(drawn.size(), Dimensions::new(width, height), "{prompt}");
        }
        pictures.insert(sketch(5, prompt).scene().unwrap().rgba().to_vec());
    }
    assert_eq!(pictures.len(), prompts.len());
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

/// How often a colour is in a picture.
fn count(picture: &Picture, colour: [u8; 4]) -> usize {
    picture
        .rgba()
        .chunks_exact(4)
        .filter(|pixel| *pixel == colour)
        .count()
}

#[test]
fn every_picture_says_that_it_is_simulated() {
    const CHIP: [u8; 4] = [0xFF, 0xB8, 0x2E, 0xFF];
    for (width, height) in [(64, 64), (96, 64), (1024, 256), (300, 700)] {
        let sketch = Sketch::new(Dimensions::new(width, height), 1, "noon");
        assert_eq!(count(&sketch.scene().unwrap(), CHIP), 0, "{width}x{height}");
        assert!(count(&sketch.draw().unwrap(), CHIP) > 300, "{width}x{height}");
    }
}

#[test]
fn the_prompt_stands_on_the_banner_in_letters_there_are() {
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
fn pictures_of_a_set_are_one_place() {
    let numbered = |number| Sketch {
        number: Some((number, 3)),
        ..sketch(4, "hills at dawn")
    };
    let scenes: Vec<Picture> = (1..=3).map(|number| numbered(number).scene().unwrap()).collect();
    let [first, second, third] = scenes.as_slice() else {
        panic!("three");
    };
    assert_ne!(first, second);
    assert_ne!(second, third);
    // Far from where the light moves, the sky stays as it is.
    let corner = |picture: &Picture| picture.rgba()[..12].to_vec();
    let near = |a: &[u8], b: &[u8]| a.iter().zip(b).all(|(a, b)| a.abs_diff(*b) < 40);
    assert!(near(&corner(first), &corner(third)));
}

#[test]
fn a_palette_is_taken_from_a_picture_and_kept_as_text() {
    let red = [250_u8, 10, 10, 255].repeat(32 * 32);
    let palette = Palette::of(&Picture::from_rgba(Dimensions::new(32, 32), red).unwrap());
    assert!(
        palette
            .sky
            .iter()
            .all(|colour| colour >> 16 > 200 && colour & 0xFF < 40)
    );
    let kept = serde_json::to_string(&palette).unwrap();
    assert_eq!(serde_json::from_str::<Palette>(&kept).unwrap(), palette);
}

#[test]
fn what_could_not_be_read_is_not_drawn() {
    for (width, height) in [(0, 5), (5, 0), (16_385, 1), (16_000, 16_000)] {
        let refused = Sketch::new(Dimensions::new(width, height), 1, "").draw();
        assert!(matches!(refused, Err(Error::TooLarge(_))), "{width}x{height}");
    }
}
