//! Reports: finished values first, then writers.

pub mod backups;
pub mod check_json;
pub mod check_report;
pub mod check_table;
pub mod console;
pub mod done;
pub mod json;
pub mod metrics;
pub mod nagios;
pub mod restore_report;
pub mod run_report;
pub mod table;
pub mod words;

pub use backups::{Line, Standing};
pub use console::{Console, Voice};
pub use restore_report::{Change, Difference, Ending, RestoreReport};
pub use run_report::{Outcome, RunReport, StepReport};
