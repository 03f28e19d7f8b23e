//! What every runner must do, as tests that any runner can be put through.
//!
//! A runner's tests hand a macro the expression that makes one (or nothing, where there is none
//! here); it makes one test a case. The scripts are real ones, for real Python.

pub mod files;
