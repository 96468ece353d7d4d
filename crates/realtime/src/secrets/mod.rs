//! Client secrets, with which browsers open sessions without a key.

mod read;
mod service;
mod wire;

pub(crate) use service::{Creator, create, create_session};
pub(crate) use wire::{CreateClientSecret, CreateSession, CreatedClientSecret};
