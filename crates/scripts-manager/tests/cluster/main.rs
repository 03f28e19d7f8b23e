//! Scripts in pods of a real cluster. Runs where `TOOLBUS_TEST_KUBECONFIG` names one.

mod faults;
mod files;
mod ordinary;
mod packages;
mod proxy;
mod support;
mod warm;
