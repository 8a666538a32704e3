//! Reports: finished values first, then writers.

pub mod console;
pub mod json;
pub mod run_report;
pub mod table;
pub mod words;

pub use console::{Console, Voice};
pub use run_report::{Outcome, RunReport, StepReport};
