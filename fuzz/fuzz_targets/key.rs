//! Keys: only a valid key has a mode. The input is a slug, a line feed and a key.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_accounts::secret::KeyShape;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (slug, key) = text.split_once('\n').unwrap_or(("service", text));
    let shape = KeyShape::new(slug);
    if shape.mode_of(key).is_none() {
        return;
    }
    assert!(key.starts_with(shape.prefix()));
    assert_eq!(shape.mode_of(&format!("{key}0")), None);
    // The checksum detects every change of one character.
    for place in shape.prefix().len()..key.len() {
        let mut changed = key.as_bytes().to_vec();
        changed[place] = if changed[place] == b'x' { b'y' } else { b'x' };
        let changed = String::from_utf8(changed).expect("the end of a key is ASCII");
        assert_eq!(shape.mode_of(&changed), None, "{changed}");
    }
});
