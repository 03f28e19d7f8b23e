//! The store on SQLite and on PostgreSQL: what one does, the other does as well.

mod changes;
mod columns;
mod leases;
mod migrations;
mod outages;
mod support;
mod writes;
