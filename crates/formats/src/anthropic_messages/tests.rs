//! What the golden files do not show.
