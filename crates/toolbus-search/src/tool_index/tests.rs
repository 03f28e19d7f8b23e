//! Tests of the index of tools.
