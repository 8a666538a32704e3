//! Reports: finished values first, then writers.

pub mod backups;
pub mod console;
pub mod json;
pub mod restore_report;
pub mod run_report;
pub mod table;
pub mod words;

pub use backups::{Line, Standing};
pub use console::{Console, Voice};
pub use restore_report::{Change, Difference, Ending, RestoreReport};
pub use run_report::{Outcome, RunReport, StepReport};
