//! The frame of a service around its work: arguments, telemetry, health, HTTP server and shutdown.

pub mod arguments;
pub mod command_line;
pub mod doctor;
pub mod health;
pub mod http;
pub mod report;
pub mod service;
pub mod telemetry;
pub mod tls;
