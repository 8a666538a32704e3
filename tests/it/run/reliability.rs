//! What `docs/reliability.md` says of the two tables.

use super::{crash, faults};

#[test]
fn the_document_counts_as_many_boundaries_and_faults_as_are_tried() {
    let document = include_str!("../../../docs/reliability.md");
    for words in [format!("{} boundaries", crash::count()), format!("{} cells", faults::count())] {
        assert!(document.contains(&words), "docs/reliability.md does not say '{words}'");
    }
}
