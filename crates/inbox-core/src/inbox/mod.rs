//! The inbox: handlers and settings over a store, and the engine that a transport drives.

mod builder;
mod connections;
mod engine;
mod events;
mod health;
mod housekeeper;
mod owner;
mod runner;
mod seldom;
mod settings;
mod start;

pub use builder::Inbox;
pub(crate) use connections::{Connections, Holder, Opened};
pub use engine::{Engine, FlushRequest, TakeOverError};
pub use events::{End, Ended, Event, Events};
pub(crate) use health::Health;
pub use owner::Owner;
pub(crate) use runner::{AnyMessage, Runner};
pub(crate) use seldom::Seldom;
pub use settings::{OnRestore, Settings};
pub use start::StartError;
