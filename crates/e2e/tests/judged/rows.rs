//! The audit log beside what has happened.

use std::collections::HashMap;

use toolbus_audit::AuditRow;

use super::ledger::CheckedCall;

/// Checks that each call has one row, which says of it what has happened.
pub(crate) fn compare_with_rows(calls: &[CheckedCall], rows: &[AuditRow]) {
    assert_eq!(rows.len(), calls.len(), "each call has a row");
    // A call that another host makes again keeps its id.
    let mut left: HashMap<&str, Vec<&CheckedCall>> = HashMap::new();
    for call in calls {
        left.entry(call.id.as_str()).or_default().push(call);
    }

    for row in rows {
        let of_id = left.entry(row.call_id.as_str()).or_default();
        let place = of_id.iter().position(|call| call.execution == row.execution);
        let place = place.unwrap_or_else(|| panic!("it has another row, or was not made: {row:?}"));
        let call = of_id.remove(place);
        let written = (&row.tool, &row.parent, row.door.as_str(), &row.subject);
        assert_eq!(written, (&call.tool, &call.parent, call.door, &call.subject), "{row:?}");
        assert_eq!(row.refused_by.as_deref(), call.refused_by, "{row:?}");

        assert_eq!(row.execution, call.execution, "{row:?}");
        let lineage = row.lineage.as_ref().unwrap_or_else(|| panic!("no lineage: {row:?}"));
        let written = (lineage.doors.to_string(), &lineage.owner);
        assert_eq!(written, (call.doors.clone(), &call.owner), "{row:?}");

        if call.ran {
            assert_ne!(row.execution, "not_started", "{row:?}");
            if call.arguments.is_some() {
                assert_eq!(row.arguments, call.arguments, "{row:?}");
            }
        }
    }
}
