//! Scripts in pods of a real cluster. Runs where `TOOLBUS_TEST_KUBECONFIG` names one.

mod begun;
mod canaries;
mod conformance;
mod dashboard;
mod deadlines;
mod ends;
mod fault_proxy;
mod faults;
mod files;
mod fleet;
mod index;
mod losses;
mod midway;
mod once;
mod ordinary;
mod outages;
mod owner;
mod packages;
mod packets;
mod policy;
mod proxy;
mod support;
mod traces;
mod unanswered;
mod walls;
mod warm;
