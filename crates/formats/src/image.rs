//! Detection of image types by the first bytes of a file, following the media type registrations
//! and WHATWG's "MIME Sniffing" standard.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::json::Text;

/// Decoder for the beginning of base64 data, with or without padding.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Number of base64 characters to decode. They contain the signature of every supported image type.
const SIGNATURE_DIGITS: usize = 24;

/// Error text for data that is sent as an image but has no known image signature.
pub const MUST_BE_IMAGE: &str = "must contain a PNG, JPEG, GIF, WebP, HEIC, AVIF, BMP or TIFF image";

/// Major brands of ISO media files that are HEIF images (ISO/IEC 23008-12).
const HEIC_BRANDS: &[&[u8]] = &[
    b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1",
];
/// Major brands of ISO media files that are AVIF images (AV1 Image File Format).
const AVIF_BRANDS: &[&[u8]] = &[b"avif", b"avis"];

/// Returns the media type of an image, detected from its first bytes; `None` for unknown types.
pub fn image_type(bytes: &[u8]) -> Option<&'static str> {
    let at = |start: usize, end: usize| bytes.get(start..end).unwrap_or_default();
    let is_iso_media = at(4, 8) == b"ftyp";
    match bytes {
        _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if bytes.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") => Some("image/gif"),
        _ if bytes.starts_with(b"RIFF") && at(8, 12) == b"WEBP" => Some("image/webp"),
        _ if is_iso_media && HEIC_BRANDS.contains(&at(8, 12)) => Some("image/heic"),
        _ if is_iso_media && AVIF_BRANDS.contains(&at(8, 12)) => Some("image/avif"),
        // In a BMP file, four reserved zero bytes follow the file size.
        _ if bytes.starts_with(b"BM") && at(6, 10) == [0; 4] => Some("image/bmp"),
        _ if bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*") => Some("image/tiff"),
        _ => None,
    }
}

/// Whether a media type is `image/…`, ignoring case.
pub(crate) fn is_image_type(media_type: &str) -> bool {
    let family = media_type.get(..6).unwrap_or_default();
    family.eq_ignore_ascii_case("image/")
}

/// Whether base64 in a JSON string starts with an image signature. Escapes are resolved only if the
/// first [`SIGNATURE_DIGITS`] characters contain one.
pub(crate) fn text_begins_as_image(text: Text<'_>) -> bool {
    let head = text.raw.get(..SIGNATURE_DIGITS).unwrap_or(text.raw);
    match head.contains('\\') {
        true => begins_as_image(&text.decoded()),
        false => begins_as_image(head),
    }
}

/// Whether base64 (standard or URL-safe alphabet) starts with an image signature.
pub(crate) fn begins_as_image(base64: &str) -> bool {
    let digits: Vec<u8> = base64
        .bytes()
        .take(SIGNATURE_DIGITS)
        .map(|digit| match digit {
            b'-' => b'+',
            b'_' => b'/',
            digit => digit,
        })
        .collect();
    let bytes = ENGINE.decode(digits).unwrap_or_default();
    image_type(&bytes).is_some()
}

/// Whether a data URL declares a base64-encoded image, but its data has no known image signature.
pub fn is_false_image(data_url: &str) -> bool {
    let Some((head, data)) = data_url.get(5..).and_then(|rest| rest.split_once(',')) else {
        return false;
    };
    let is_base64 = head
        .rsplit_once(';')
        .is_some_and(|(_, last)| last.trim().eq_ignore_ascii_case("base64"));
    is_base64 && is_image_type(head) && !begins_as_image(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    #[test]
    fn images_are_known_by_their_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some("image/jpeg")),
            (b"GIF87a\x01\0", Some("image/gif")),
            (b"GIF89a\x01\0", Some("image/gif")),
            (b"RIFF\x1a\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1", Some("image/heic")),
            (b"\0\0\0\x18ftypmif1\0\0\0\0heic", Some("image/heic")),
            (b"\0\0\0\x20ftypavif\0\0\0\0", Some("image/avif")),
            (b"BM\x3a\0\0\0\0\0\0\0\x36\0\0\0", Some("image/bmp")),
            (b"II*\0\x08\0\0\0", Some("image/tiff")),
            (b"MM\0*\0\0\0\x08", Some("image/tiff")),
            (b"\0\0\0\x18ftypisom\0\0\0\0", None),
            (b"RIFF\x1a\0\0\0WAVEfmt ", None),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>", None),
            (b"<!doctype html><html></html>", None),
            (b"BMW builds cars.", None),
            (b"%PDF-1.7", None),
            (b"", None),
        ] {
            assert_eq!(image_type(bytes), expected, "{bytes:?}");
            for base64 in [STANDARD.encode(bytes), URL_SAFE_NO_PAD.encode(bytes)] {
                assert_eq!(begins_as_image(&base64), expected.is_some(), "{base64}");
            }
        }
    }

    #[test]
    fn only_what_declares_an_image_must_be_one() {
        for (url, is_false) in [
            ("data:image/png;base64,iVBORw0KGgo=", false),
            // A JPEG declared as PNG is accepted: providers detect the type from the bytes, or
            // refuse the image themselves.
            ("data:image/png;base64,/9j/4AAQ", false),
            ("DATA:IMAGE/PNG;charset=x;BASE64,aGVsbG8=", true),
            ("data:image/png;base64,aGVsbG8=", true),
            ("data:image/svg+xml;base64,PHN2Zy8+", true),
            ("data:image/png;base64,", true),
            ("data:application/pdf;base64,JVBERi0=", false),
            ("data:image/png,hello", false),
            ("data:", false),
        ] {
            assert_eq!(is_false_image(url), is_false, "{url}");
        }
    }
}
