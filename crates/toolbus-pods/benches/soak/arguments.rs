//! How many scripts, by which runner.

use clap::{Parser, ValueEnum};

/// Of the scripts that both runners share, one in so many runs in a pod.
const PODS_EVERY: usize = 10;

/// The command line.
#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// How many scripts in all.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// How many at a time, of one runner.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) at_once: u16,
    /// How often the API of the cluster is away for half a minute while scripts run in pods.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=20))]
    outages: u16,
    /// Which runner.
    #[arg(long, value_enum, default_value_t = Runner::Both)]
    runner: Runner,
    /// What cargo adds.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Runner {
    Local,
    Pods,
    Both,
}

/// Where scripts run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Local,
    Pods,
}

impl Place {
    /// The part of the benchmark.
    pub(crate) fn part(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Pods => "pods",
        }
    }
}

/// How many scripts run in one place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) count: usize,
    pub(crate) at_once: u16,
    /// How often the API of the cluster is away meanwhile.
    pub(crate) outages: u16,
}

impl Arguments {
    /// What each runner has to do, one after the other.
    pub(crate) fn shares(&self) -> Vec<(Place, Runs)> {
        let all = self.runs as usize;
        let runs = |count| Runs { count, at_once: self.at_once, outages: self.outages };
        match self.runner {
            Runner::Local => vec![(Place::Local, runs(all))],
            Runner::Pods => vec![(Place::Pods, runs(all))],
            Runner::Both => {
                let in_pods = all.div_ceil(PODS_EVERY);
                vec![(Place::Local, runs(all - in_pods)), (Place::Pods, runs(in_pods))]
            }
        }
    }
}
