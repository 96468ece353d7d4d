//! Tables of accepted and refused bodies.
