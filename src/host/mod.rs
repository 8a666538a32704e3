//! The one door to the machine: clock, commands, signals.

pub mod ask;
pub mod clock;
pub mod command;
pub mod deadline;
pub mod names;
pub mod program;
pub mod signal;
pub mod tools;

pub use clock::{Clock, SystemClock};
pub use command::{Call, CommandError, Output, Status};
pub use deadline::Deadline;
pub use names::resolve;
pub use signal::Signals;
pub use tools::ToolError;
