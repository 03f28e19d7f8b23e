//! Fetching from a server on loopback, which the tests allow or do not.

mod bodies;
mod guard;
mod redirects;
mod support;
