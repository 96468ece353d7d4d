//! Images in memory, and their encoding as PNG, JPEG and WebP. The size in a file's header is
//! checked before memory is allocated.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::{CompressionType, FilterType as PngFilter, PngEncoder};
use image::codecs::webp::WebPEncoder;
use image::imageops::{self, FilterType};
use image::metadata::Orientation;
use image::{DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, Limits};
use image::{ImageError, RgbaImage};

use crate::error::{Error, Result};

/// Maximum length of a side of a decoded image, in pixels.
pub const MAX_SIDE: u32 = 16_384;
/// Maximum number of pixels of a decoded image.
pub const MAX_PIXELS: u64 = 64 << 20;
/// Maximum number of bytes that a decoder allocates.
const MAX_DECODER_BYTES: u64 = 512 << 20;
/// Default JPEG quality, from 1 to 100.
pub const DEFAULT_QUALITY: u8 = 90;

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimensions {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

impl Dimensions {
    /// Creates dimensions from a width and a height in pixels.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }

    /// Returns the number of pixels: width × height.
    pub const fn pixels(self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

/// File format of an encoded image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Lossless PNG, with alpha.
    Png,
    /// JPEG with a quality from 1 to 100.
    Jpeg(u8),
    /// Lossless WebP, with alpha.
    Webp,
}

impl Encoding {
    /// Detects the encoding from the first bytes of a file; `None` for any other format.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match format_of(bytes)? {
            ImageFormat::Png => Some(Encoding::Png),
            ImageFormat::Jpeg => Some(Encoding::Jpeg(DEFAULT_QUALITY)),
            _ => Some(Encoding::Webp),
        }
    }

    /// Returns the media type, such as `image/png`.
    pub const fn mime_type(self) -> &'static str {
        match self {
            Encoding::Png => "image/png",
            Encoding::Jpeg(_) => "image/jpeg",
            Encoding::Webp => "image/webp",
        }
    }
}

fn format_of(bytes: &[u8]) -> Option<ImageFormat> {
    let is_webp = bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP");
    match bytes {
        _ if bytes.starts_with(b"\x89PNG\r\n\x1a\n") => Some(ImageFormat::Png),
        _ if bytes.starts_with(b"\xff\xd8\xff") => Some(ImageFormat::Jpeg),
        _ if is_webp => Some(ImageFormat::WebP),
        _ => None,
    }
}

/// Returns the size from an image's header, with the orientation applied, and decodes no pixels.
/// Returns [`Error::Input`] if the file is not an image, and [`Error::TooLarge`] beyond the limits.
pub fn dimensions(bytes: &[u8]) -> Result<Dimensions> {
    let (decoder, orientation) = open(bytes)?;
    let (width, height) = decoder.dimensions();
    let is_turned = matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    );
    Ok(match is_turned {
        true => Dimensions::new(height, width),
        false => Dimensions::new(width, height),
    })
}

/// Checks the size of an image and opens a decoder. Returns the decoder and the orientation of the
/// image.
fn open(bytes: &[u8]) -> Result<(impl ImageDecoder + '_, Orientation)> {
    if bytes.is_empty() {
        return Err(Error::Input("is empty".to_owned()));
    }
    let format =
        format_of(bytes).ok_or_else(|| Error::Input("is not a PNG, JPEG or WebP image".to_owned()))?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(refusal)?;
    let (width, height) = decoder.dimensions();
    check_size(Dimensions::new(width, height))?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((decoder, orientation))
}

fn check_size(size: Dimensions) -> Result<()> {
    if size.width == 0 || size.height == 0 {
        return Err(Error::Input("has no pixels".to_owned()));
    }
    if size.width.max(size.height) > MAX_SIDE || size.pixels() > MAX_PIXELS {
        return Err(too_large());
    }
    Ok(())
}

fn too_large() -> Error {
    let megapixels = MAX_PIXELS >> 20;
    Error::TooLarge(format!(
        "is larger than {MAX_SIDE} pixels on a side or {megapixels} megapixels"
    ))
}

fn refusal(error: ImageError) -> Error {
    match error {
        ImageError::Limits(_) => too_large(),
        ImageError::Unsupported(_) => Error::Input("has an unsupported encoding".to_owned()),
        _ => Error::Input("is corrupt".to_owned()),
    }
}

/// An image with one byte each for red, green, blue and alpha, stored row by row from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pixels: RgbaImage,
}

impl Image {
    /// Creates an image from RGBA bytes; `None` if there are too few bytes for the size.
    pub fn from_rgba(size: Dimensions, bytes: Vec<u8>) -> Option<Self> {
        let pixels = RgbaImage::from_raw(size.width, size.height, bytes)?;
        Some(Self { pixels })
    }

    /// Creates an opaque image from RGB bytes, three per pixel; `None` if there are too few bytes
    /// for the size.
    pub(crate) fn from_rgb(size: Dimensions, bytes: &[u8]) -> Option<Self> {
        let opaque = bytes.chunks_exact(3).flat_map(|rgb| match rgb {
            [red, green, blue] => [*red, *green, *blue, u8::MAX],
            _ => [0; 4],
        });
        Self::from_rgba(size, opaque.collect())
    }

    /// Decodes an image and applies its orientation. Returns the same errors as [`dimensions`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (decoder, orientation) = open(bytes)?;
        let mut image = DynamicImage::from_decoder(decoder).map_err(refusal)?;
        image.apply_orientation(orientation);
        Ok(Self {
            pixels: image.into_rgba8(),
        })
    }

    /// Returns the size in pixels.
    pub fn size(&self) -> Dimensions {
        Dimensions::new(self.pixels.width(), self.pixels.height())
    }

    /// Returns the RGBA bytes, row by row from the top.
    pub fn rgba(&self) -> &[u8] {
        &self.pixels
    }

    /// Returns the RGBA bytes, mutable.
    pub fn rgba_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// Scales the image to exactly this size; the proportions may change.
    #[must_use]
    pub fn resized(&self, size: Dimensions) -> Self {
        if size == self.size() {
            return self.clone();
        }
        let pixels = imageops::resize(&self.pixels, size.width, size.height, FilterType::CatmullRom);
        Self { pixels }
    }

    /// Returns the upper left part with this size; `None` if the image is smaller.
    pub fn cropped(&self, size: Dimensions) -> Option<Self> {
        let own = self.size();
        if size.pixels() == 0 || size.width > own.width || size.height > own.height {
            return None;
        }
        let pixels = imageops::crop_imm(&self.pixels, 0, 0, size.width, size.height).to_image();
        Some(Self { pixels })
    }

    /// Scales the image so that it covers this size, and crops it at the center.
    #[must_use]
    pub fn covering(&self, size: Dimensions) -> Self {
        let own = self.size();
        let (wide, high) = (
            u64::from(own.width) * u64::from(size.height),
            u64::from(size.width) * u64::from(own.height),
        );
        let (width, height) = match wide > high {
            true => (scaled(own.height, size.width, size.height), own.height),
            false => (own.width, scaled(own.width, size.height, size.width)),
        };
        let (width, height) = (width.clamp(1, own.width), height.clamp(1, own.height));
        let (left, top) = ((own.width - width) / 2, (own.height - height) / 2);
        let pixels = imageops::crop_imm(&self.pixels, left, top, width, height).to_image();
        Self { pixels }.resized(size)
    }

    /// Encodes the image. JPEG has no alpha channel, so the image is blended with a white
    /// background.
    pub fn encode(&self, encoding: Encoding) -> Result<Vec<u8>> {
        let mut file = Vec::new();
        let (width, height) = self.pixels.dimensions();
        let is_opaque = self.pixels.pixels().all(|pixel| pixel.0.ends_with(&[u8::MAX]));
        let flat = match encoding {
            Encoding::Jpeg(_) => Some(self.on_white()),
            _ => is_opaque.then(|| self.on_white()),
        };
        let (pixels, colours) = match &flat {
            Some(flat) => (flat.as_slice(), ExtendedColorType::Rgb8),
            None => (self.rgba(), ExtendedColorType::Rgba8),
        };
        let written = match encoding {
            Encoding::Png => {
                let encoder =
                    PngEncoder::new_with_quality(&mut file, CompressionType::Fast, PngFilter::Adaptive);
                encoder.write_image(pixels, width, height, colours)
            }
            Encoding::Jpeg(quality) => {
                let encoder = JpegEncoder::new_with_quality(&mut file, quality.clamp(1, 100));
                encoder.write_image(pixels, width, height, colours)
            }
            Encoding::Webp => {
                WebPEncoder::new_lossless(&mut file).write_image(pixels, width, height, colours)
            }
        };
        written.map_err(|error| Error::UnexpectedOutput(error.to_string()))?;
        Ok(file)
    }

    fn on_white(&self) -> Vec<u8> {
        let mut rgb = Vec::with_capacity(self.pixels.len() / 4 * 3);
        for pixel in self.pixels.pixels() {
            let [red, green, blue, opacity] = pixel.0.map(u32::from);
            let over = |colour: u32| ((colour * opacity + 255 * (255 - opacity) + 127) / 255) as u8;
            rgb.extend([over(red), over(green), over(blue)]);
        }
        rgb
    }
}

fn scaled(length: u32, by: u32, of: u32) -> u32 {
    let scaled = u64::from(length) * u64::from(by) / u64::from(of.max(1));
    u32::try_from(scaled).unwrap_or(u32::MAX)
}

/// Converts an image file to another encoding. Returns the same errors as [`dimensions`].
pub fn convert(bytes: &[u8], encoding: Encoding) -> Result<Vec<u8>> {
    Image::decode(bytes)?.encode(encoding)
}

/// Position after the first PNG chunk: the signature, then the header chunk with length, name, data
/// and checksum.
const AFTER_HEADER: usize = 8 + 4 + 4 + 13 + 4;

/// Adds a text note to a PNG file (PNG specification, `tEXt`). The keyword must have 1 to 79 ASCII
/// characters. Other files, and files with an invalid keyword, are returned unchanged. Only the
/// printable ASCII characters of the note are written.
pub fn with_note(png: Vec<u8>, keyword: &str, note: &str) -> Vec<u8> {
    let is_keyword = (1..80).contains(&keyword.len()) && keyword.is_ascii();
    let (true, Some((head, rest))) = (
        is_keyword && format_of(&png) == Some(ImageFormat::Png),
        png.split_at_checked(AFTER_HEADER),
    ) else {
        return png;
    };
    let latin: String = note.chars().filter(|c| (' '..='~').contains(c)).collect();
    let chunk = [b"tEXt", keyword.as_bytes(), b"\0", latin.as_bytes()].concat();
    let length = u32::try_from(chunk.len() - 4).unwrap_or_default();
    let checksum = crc32fast::hash(&chunk);
    [head, &length.to_be_bytes(), &chunk, &checksum.to_be_bytes(), rest].concat()
}

#[cfg(test)]
mod tests;
