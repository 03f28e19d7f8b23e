//! Scripts in pods of a real cluster. Runs where `TOOLBUS_TEST_KUBECONFIG` names one.

mod begun;
mod canaries;
mod conformance;
mod dashboard;
mod faults;
mod files;
mod fleet;
mod index;
mod meddler;
mod midway;
mod once;
mod ordinary;
mod outages;
mod packages;
mod proxy;
mod support;
mod traces;
mod unanswered;
mod waiting;
mod warm;
