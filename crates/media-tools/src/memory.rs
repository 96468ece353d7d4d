//! Memory limit for images. Work that runs in [`with_pixels`] waits until its memory fits into
//! [`IMAGE_MEMORY`].

use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::image::{Dimensions, dimensions};

/// Maximum memory of all images that are processed concurrently, in bytes. A larger image is
/// processed alone.
pub const IMAGE_MEMORY: u64 = 64 << 20;
/// Assumed memory of an image in bytes per pixel: the image and its sources or copies.
const BYTES_PER_PIXEL: u64 = 16;
/// Memory of one semaphore permit, in bytes.
const UNIT: u64 = 1 << 10;

static PERMITS: Semaphore = Semaphore::const_new((IMAGE_MEMORY / UNIT) as usize);

/// Runs CPU-bound work on `pixels` pixels outside of the async threads. Waits until the memory is
/// available.
pub async fn with_pixels<T: Send + 'static>(
    pixels: u64,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let unfit = |error: String| Error::UnexpectedOutput(error);
    let permit = PERMITS.acquire_many(units(pixels)).await;
    let permit = permit.map_err(|error| unfit(error.to_string()))?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    });
    done.await.map_err(|error| unfit(error.to_string()))
}

/// Returns the number of pixels of an image file; 0 if the file is not an image or exceeds the
/// limits for decoded images.
pub fn pixels_of(file: &[u8]) -> u64 {
    dimensions(file).map_or(0, Dimensions::pixels)
}

fn units(pixels: u64) -> u32 {
    let bytes = pixels.saturating_mul(BYTES_PER_PIXEL).clamp(UNIT, IMAGE_MEMORY);
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn permits_never_exceed_the_limit() {
        let all = (IMAGE_MEMORY / UNIT) as u32;
        for (pixels, expected) in [
            (0, 1),
            (1, 1),
            (64, 1),
            (65, 2),
            (1 << 20, all / 4),
            (1 << 22, all),
            (u64::MAX, all),
        ] {
            assert_eq!(units(pixels), expected, "{pixels}");
        }
    }

    /// The memory of concurrent work is bounded, and all images are processed.
    #[tokio::test]
    async fn image_work_waits_for_memory() {
        let (now, max) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let pixels: Vec<u64> = (0..40).map(|n| 1 << (14 + n % 10)).collect();
        let works = pixels.iter().map(|pixels| {
            let (now, max, cost) = (now.clone(), max.clone(), u64::from(units(*pixels)));
            with_pixels(*pixels, move || {
                let together = now.fetch_add(cost, Ordering::SeqCst) + cost;
                max.fetch_max(together, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(cost, Ordering::SeqCst);
            })
        });
        let mut waiting = tokio::task::JoinSet::new();
        for work in works {
            waiting.spawn(work);
        }
        let done = waiting.join_all().await;
        assert!(done.len() == 40 && done.iter().all(Result::is_ok));
        let max = max.load(Ordering::SeqCst);
        assert!(max <= IMAGE_MEMORY / UNIT, "{max}");
    }
}
