use super::*;

#[test]
fn a_task_that_is_worked_on_is_not_submitted_again() {
    use AgentTaskState::{Completed, InputRequired, Submitted, Working};

    assert_eq!(state_after(Working, Submitted), Working);
    for read in [Submitted, Working, Completed, InputRequired] {
        assert_eq!(state_after(Submitted, read), read);
    }
    for read in [Working, Completed, InputRequired] {
        assert_eq!(state_after(Working, read), read);
    }
}
