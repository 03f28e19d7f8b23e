//! Schedules: what happens at each point of a run, and the search through all of them.
//!
//! A run is deterministic but for its choices. So a schedule is known by them, and the search runs
//! the same beginning again, in a fresh world, to try another choice after it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::event::{Event, Point};

/// How far the search goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// So many points of a schedule have a choice. After them all goes well.
    pub(crate) points: usize,
    /// So many faults a schedule has at most.
    pub(crate) faults: usize,
}

/// How often a schedule is run that does not go as planned.
const ATTEMPTS_MAX: usize = 3;

/// One point that a run came to, and what was chosen there.
#[derive(Debug, Clone)]
struct Step {
    point: Point,
    options: usize,
    taken: usize,
    event: Event,
}

/// A choice that is known before the run.
type Planned = (Point, usize);

/// A fault of a named schedule: the point and what happens there, in the words of a trace.
pub(crate) type NamedFault = (&'static str, &'static str);

/// The choices of one run.
pub(crate) struct Schedule {
    limits: Limits,
    state: Mutex<ScheduleState>,
}

struct ScheduleState {
    planned: Vec<Planned>,
    named: VecDeque<NamedFault>,
    steps: Vec<Step>,
    faults: usize,
    /// The point that came instead of the one that was planned.
    diverged_at: Option<Point>,
}

impl Schedule {
    fn new(limits: Limits, planned: Vec<Planned>, named: VecDeque<NamedFault>) -> Self {
        let state =
            ScheduleState { planned, named, steps: Vec::new(), faults: 0, diverged_at: None };
        Self { limits, state: Mutex::new(state) }
    }

    /// A schedule in which these faults happen, in this order, and no others.
    pub(crate) fn named(faults: &[NamedFault]) -> Self {
        let limits = Limits { points: usize::MAX, faults: usize::MAX };
        Self::new(limits, Vec::new(), faults.iter().copied().collect())
    }

    /// The same schedule once more.
    pub(crate) fn again(&self) -> Self {
        let steps = &self.state.lock().steps;
        let planned = steps.iter().map(|step| (step.point, step.taken)).collect();
        Self::new(self.limits, planned, VecDeque::new())
    }

    /// Chooses what happens at a point. The first option is what happens where all goes well.
    pub(crate) fn choose(&self, point: Point, options: &[Event]) -> Event {
        let mut state = self.state.lock();
        let faults_left = self.limits.faults - state.faults;
        let offered = options.iter().filter(|event| faults_left > 0 || !event.is_fault());
        let offered: Vec<Event> = offered.copied().collect();
        if offered.len() < 2 || state.steps.len() >= self.limits.points {
            return options[0];
        }

        let taken = state.choose_index(point, &offered);
        let event = offered[taken];
        state.steps.push(Step { point, options: offered.len(), taken, event });
        state.faults += usize::from(event.is_fault());

        event
    }

    /// What was not as it usually is, so that [`Schedule::named`] does it again.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        let state = self.state.lock();
        let unusual = state.steps.iter().filter(|step| step.taken > 0);
        unusual.map(|step| (step.point.to_string(), step.event.to_string())).collect()
    }

    fn went_as_planned(&self) -> bool {
        let state = self.state.lock();
        state.diverged_at.is_none() && state.steps.len() >= state.planned.len()
    }

    /// The faults of a named schedule that were not met.
    pub(crate) fn unmet(&self) -> Vec<NamedFault> {
        self.state.lock().named.iter().copied().collect()
    }

    /// The schedules that differ from this one first after what was planned.
    fn alternatives(&self) -> Vec<Vec<Planned>> {
        let state = self.state.lock();
        let mut alternatives = Vec::new();
        for (index, step) in state.steps.iter().enumerate().skip(state.planned.len()) {
            let before = state.steps[..index].iter().map(|step| (step.point, step.taken));
            for option in 1..step.options {
                let last = std::iter::once((step.point, option));
                alternatives.push(before.clone().chain(last).collect());
            }
        }
        alternatives
    }
}

impl ScheduleState {
    fn choose_index(&mut self, point: Point, offered: &[Event]) -> usize {
        if let Some((planned_point, taken)) = self.planned.get(self.steps.len()) {
            if *planned_point == point && *taken < offered.len() {
                return *taken;
            }
            self.diverged_at.get_or_insert(point);
            return 0;
        }

        let Some((at, what)) = self.named.front() else { return 0 };
        if point.to_string() != *at {
            return 0;
        }
        let found = offered.iter().position(|event| event.to_string() == *what);
        if found.is_some() {
            self.named.pop_front();
        }
        found.unwrap_or_default()
    }
}

/// Runs every schedule within the limits once, hands on what came of each, and says how many there
/// are.
pub(crate) fn explore<T>(
    limits: Limits,
    run: impl Fn(&Arc<Schedule>) -> T,
    mut take: impl FnMut(&Schedule, T),
) -> usize {
    let mut open = vec![Vec::new()];
    let mut count = 0;
    while let Some(planned) = open.pop() {
        let (schedule, end) = run_as_planned(limits, &planned, &run);
        take(&schedule, end);
        open.extend(schedule.alternatives());
        count += 1;
    }
    count
}

/// Runs the schedule that begins as planned. The search rests on this: the same choices lead to the
/// same points. But the wall clock has a small part in a run, so a machine that stops for a while
/// gets another chance.
fn run_as_planned<T>(
    limits: Limits,
    planned: &[Planned],
    run: impl Fn(&Arc<Schedule>) -> T,
) -> (Arc<Schedule>, T) {
    let mut diverged_at = None;
    for _ in 0..ATTEMPTS_MAX {
        let schedule = Arc::new(Schedule::new(limits, planned.to_vec(), VecDeque::new()));
        let end = run(&schedule);
        if schedule.went_as_planned() {
            return (schedule, end);
        }
        diverged_at = schedule.state.lock().diverged_at;
    }

    let points: Vec<_> = planned.iter().map(|(point, _)| point.to_string()).collect();
    panic!("not deterministic: {diverged_at:?} came after some of {points:#?}");
}
