use super::*;

fn striped(width: u32, height: u32) -> Image {
    let bytes =
        (0..width * height).flat_map(|pixel| [(pixel % width * 7) as u8, (pixel / width * 5) as u8, 90, 255]);
    Image::from_rgba(Dimensions::new(width, height), bytes.collect()).unwrap()
}

fn see_through() -> Image {
    Image::from_rgba(Dimensions::new(2, 1), vec![200, 0, 0, 0, 0, 0, 200, 255]).unwrap()
}

/// Returns a PNG file that consists only of a header with this size.
fn header_of(width: u32, height: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend(width.to_be_bytes());
    chunk.extend(height.to_be_bytes());
    chunk.extend([8, 6, 0, 0, 0]);
    let checksum = crc32fast::hash(&chunk).to_be_bytes();
    let data = [&[0, 0, 0, 0][..], b"IDAT", &[0x35, 0xAF, 0x06, 0x1E]].concat();
    [&b"\x89PNG\r\n\x1a\n\0\0\0\x0d"[..], &chunk, &checksum, &data].concat()
}

#[test]
fn encoded_images_can_be_decoded() {
    for image in [striped(33, 20), see_through()] {
        for encoding in [Encoding::Png, Encoding::Webp, Encoding::Jpeg(95)] {
            let file = image.encode(encoding).unwrap();
            assert_eq!(
                Encoding::of(&file).map(Encoding::mime_type),
                Some(encoding.mime_type())
            );
            assert_eq!(dimensions(&file).unwrap(), image.size());
            let read = Image::decode(&file).unwrap();
            assert_eq!(read.size(), image.size());
            match encoding {
                Encoding::Jpeg(_) => assert!(read.rgba().chunks(4).all(|pixel| pixel[3] == 255)),
                _ => assert_eq!(read, image, "{encoding:?}"),
            }
        }
    }
    let white = Image::decode(&see_through().encode(Encoding::Jpeg(100)).unwrap()).unwrap();
    assert!(
        white.rgba()[..3].iter().all(|part| *part > 120),
        "{:?}",
        white.rgba()
    );
}

#[test]
fn a_lower_quality_is_fewer_bytes() {
    let image = striped(64, 64);
    let length = |quality| image.encode(Encoding::Jpeg(quality)).unwrap().len();
    assert!(length(20) < length(95));
    assert_eq!(length(0), length(1));
}

#[test]
fn invalid_images_are_rejected_with_the_reason() {
    let whole = striped(40, 40).encode(Encoding::Png).unwrap();
    let cut = &whole[..whole.len() / 2];
    for (bytes, reason) in [
        (&b""[..], "is empty"),
        (
            b"garbage bytes that are nothing",
            "is not a PNG, JPEG or WebP image",
        ),
        (b"\x89PNG\r\n\x1a\n", "is corrupt"),
        (b"RIFF\0\0\0\0WEBPgarbage", "is corrupt"),
        (b"\xff\xd8\xff\xe0garbage", "is corrupt"),
        (cut, "is corrupt"),
    ] {
        let error = Image::decode(bytes).expect_err(reason);
        assert!(
            matches!(&error, Error::Input(text) if text == reason),
            "{error:?}"
        );
    }
}

#[test]
fn a_size_that_is_too_large_is_refused_by_the_header_alone() {
    for (width, height) in [
        (16_385, 1),
        (1, 16_385),
        (8_193, 8_192),
        (0x7FFF_FFFF, 0x7FFF_FFFF),
    ] {
        let bomb = header_of(width, height);
        for error in [dimensions(&bomb).unwrap_err(), Image::decode(&bomb).unwrap_err()] {
            assert!(matches!(error, Error::TooLarge(_)), "{width}x{height}: {error:?}");
        }
    }
    assert_eq!(
        dimensions(&header_of(16_384, 4_096)).unwrap(),
        Dimensions::new(16_384, 4_096)
    );
}

#[test]
fn sizes_are_exact() {
    for (width, height) in [(1, 1), (7, 90), (200, 11), (64, 48)] {
        let size = Dimensions::new(width, height);
        assert_eq!(striped(64, 48).resized(size).size(), size);
        assert_eq!(striped(64, 48).covering(size).size(), size);
    }
    assert_eq!(striped(64, 48).resized(Dimensions::new(64, 48)), striped(64, 48));
}

#[test]
fn covering_takes_the_middle() {
    let row: Vec<u8> = [10_u8, 10, 200, 200, 10, 10]
        .iter()
        .flat_map(|grey| [*grey, *grey, *grey, 255])
        .collect();
    let image = Image::from_rgba(Dimensions::new(6, 2), row.repeat(2)).unwrap();
    let middle = image.covering(Dimensions::new(2, 2));
    assert!(middle.rgba().chunks(4).all(|pixel| pixel[0] == 200));
}

#[test]
fn one_encoding_becomes_another() {
    let png = striped(16, 16).encode(Encoding::Png).unwrap();
    let webp = convert(&png, Encoding::Webp).unwrap();
    assert_eq!(Encoding::of(&webp), Some(Encoding::Webp));
    assert_eq!(Image::decode(&webp).unwrap(), striped(16, 16));
}

#[test]
fn notes_do_not_change_the_image() {
    let png = striped(16, 16).encode(Encoding::Png).unwrap();
    let noted = with_note(png.clone(), "Software", "made ☂ here");
    let text = b"tEXtSoftware\0made  here";
    assert!(noted.windows(text.len()).any(|window| window == text));
    assert_eq!(Image::decode(&noted).unwrap(), striped(16, 16));
    assert_eq!(with_note(png.clone(), "", "note"), png);
    assert_eq!(with_note(b"no png".to_vec(), "Software", "note"), b"no png");
}

#[test]
fn the_number_of_bytes_is_the_number_of_pixels() {
    let size = Dimensions::new(2, 2);
    assert!(Image::from_rgba(size, vec![0; 15]).is_none());
    assert!(Image::from_rgb(size, &[0; 11]).is_none());
    assert_eq!(
        Image::from_rgb(size, &[9; 12]).unwrap().rgba()[..4],
        [9, 9, 9, 255]
    );
}
