// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the statistics of servers in the text format of Prometheus, version 0.0.4.

use super::server_stats::{ServerStats, Tenant};
use std::fmt::Write as _;

/// A sample: its labels besides those of the server, and its value.
type Sample = (Vec<(&'static str, String)>, u64);

/// A metric: its name, its type, its help text, and its samples of a server.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: fn(&ServerStats) -> Vec<Sample>,
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// A metric of each tenant.
macro_rules! of_tenants {
    ($name:literal, $kind:ident, $help:literal, $value:expr) => {
        Metric {
            name: $name,
            kind: $kind,
            help: $help,
            samples: |stats| {
                let value: fn(&Tenant) -> u64 = $value;
                let tenants = stats.tenants.iter();
                let sample = |tenant: &Tenant| (of_tenant(tenant), value(tenant));
                tenants.map(sample).collect()
            },
        }
    };
}

/// A metric of the server as a whole.
macro_rules! of_all {
    ($name:literal, $kind:ident, $help:literal, $value:expr) => {
        Metric {
            name: $name,
            kind: $kind,
            help: $help,
            samples: |stats| {
                let value: fn(&ServerStats) -> u64 = $value;
                vec![(Vec::new(), value(stats))]
            },
        }
    };
}

const METRICS: &[Metric] = &[
    Metric {
        name: "openpath_info",
        kind: GAUGE,
        help: "What is served; always 1.",
        samples: |stats| {
            let label = &stats.label;
            let directory = label.directory.clone().unwrap_or_default();
            let more = vec![("command", label.command.clone()), ("directory", directory)];
            vec![(more, 1)]
        },
    },
    of_all!(
        "openpath_start_time_seconds",
        GAUGE,
        "When it began, in seconds since 1970.",
        |f| f.label.begun
    ),
    Metric {
        name: "openpath_requests_total",
        kind: COUNTER,
        help: "Requests of the kernel, by kind.",
        samples: |stats| {
            let requests = stats.requests.iter();
            let sample = |(kind, n): (&String, &u64)| (vec![("request", kind.clone())], *n);
            requests.map(sample).collect()
        },
    },
    of_all!(
        "openpath_requests_by_rings_total",
        COUNTER,
        "Requests of the kernel that came by rings.",
        |f| f.by_rings
    ),
    of_all!(
        "openpath_nodes",
        GAUGE,
        "Files, directories and links that the kernel knows.",
        |f| f.nodes
    ),
    of_all!(
        "openpath_cached_names",
        GAUGE,
        "Names that are cached.",
        |f| f.cached.names
    ),
    of_all!(
        "openpath_copied_up_files_total",
        COUNTER,
        "Files, directories and links that were copied up.",
        |f| f.copied_up.files
    ),
    of_all!(
        "openpath_copied_up_bytes_total",
        COUNTER,
        "Bytes of files that were copied up, holes included.",
        |f| f.copied_up.bytes
    ),
    of_tenants!("openpath_tenant_tasks", GAUGE, "Tasks of a tenant.", |t| t
        .tasks),
    Metric {
        name: "openpath_tenant_cached_names",
        kind: GAUGE,
        help: "Cached names that a tenant's tasks entered, by whether they exist.",
        samples: |stats| by_being(stats, |t| [t.positive, t.negative]),
    },
    of_tenants!(
        "openpath_tenant_cached_bytes",
        GAUGE,
        "Bytes that a tenant's cached names take.",
        |t| t.cached_bytes
    ),
    Metric {
        name: "openpath_tenant_evicted_names_total",
        kind: COUNTER,
        help: "Cached names that went to make room, by whether they existed.",
        samples: |stats| by_being(stats, |t| [t.evicted_positive, t.evicted_negative]),
    },
    of_tenants!(
        "openpath_tenant_hits_total",
        COUNTER,
        "Walks that ended at a cached name that exists.",
        |t| t.hits
    ),
    of_tenants!(
        "openpath_tenant_negative_hits_total",
        COUNTER,
        "Walks that ended at a cached name that does not exist.",
        |t| t.negative_hits
    ),
    of_tenants!(
        "openpath_tenant_misses_total",
        COUNTER,
        "Names that a tree was asked for.",
        |t| t.misses
    ),
    Metric {
        name: "openpath_tenant_restarts_total",
        kind: COUNTER,
        help: "Walks that left the lock-free mode or started over, by reason.",
        samples: |stats| {
            let tenants = stats.tenants.iter();
            let samples = tenants.flat_map(|tenant| {
                let restarts = tenant.restarts.iter();
                restarts.map(|(why, n)| {
                    let mut labels = of_tenant(tenant);
                    labels.push(("reason", why.clone()));
                    (labels, *n)
                })
            });
            samples.collect()
        },
    },
    of_tenants!(
        "openpath_tenant_files",
        GAUGE,
        "Files charged to a tenant.",
        |t| t.files
    ),
    of_tenants!(
        "openpath_tenant_file_bytes",
        GAUGE,
        "Bytes of files charged to a tenant.",
        |t| t.bytes
    ),
];

fn of_tenant(tenant: &Tenant) -> Vec<(&'static str, String)> {
    vec![("tenant", tenant.tenant.to_string())]
}

/// Two samples for each tenant: for names that exist, and for names that do not.
fn by_being(stats: &ServerStats, values: fn(&Tenant) -> [u64; 2]) -> Vec<Sample> {
    let tenants = stats.tenants.iter();
    let samples = tenants.flat_map(|tenant| {
        let words = ["yes", "no"].into_iter().zip(values(tenant));
        words.map(|(word, n)| {
            let mut labels = of_tenant(tenant);
            labels.push(("exists", word.to_owned()));
            (labels, n)
        })
    });
    samples.collect()
}

/// All statistics as one exposition: each metric once, with the samples of all servers.
#[must_use]
pub fn prometheus(all: &[ServerStats]) -> String {
    let mut out = String::new();
    for metric in METRICS {
        let Metric {
            name, kind, help, ..
        } = metric;
        let mut lines = String::new();
        for stats in all {
            for (more, value) in (metric.samples)(stats) {
                let label = &stats.label;
                let mut labels = vec![
                    ("pid", label.pid.to_string()),
                    ("name", label.name.clone().unwrap_or_default()),
                ];
                labels.extend(more);
                let labels = labels
                    .iter()
                    .map(|(key, text)| format!("{key}=\"{}\"", escaped(text)));
                let labels = labels.collect::<Vec<_>>().join(",");
                // Writing to a string cannot fail.
                let _written = writeln!(lines, "{name}{{{labels}}} {value}");
            }
        }
        if !lines.is_empty() {
            let _written = write!(out, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
    }
    out
}

/// The value of a label, without its quotation marks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Cached, CopiedUp, Label, ServedKind, VERSION};
    use super::*;
    use std::collections::BTreeMap;

    fn stats(command: &str) -> ServerStats {
        let mut label = Label::new(ServedKind::Run, 7, command.to_owned());
        label.name = Some("v".to_owned());
        label.begun = 12;
        ServerStats {
            version: VERSION,
            label,
            requests: BTreeMap::from([("lookup".to_owned(), 3)]),
            by_rings: 2,
            way: "by rings".to_owned(),
            nodes: 4,
            cached: Cached::default(),
            copied_up: CopiedUp { files: 1, bytes: 9 },
            tenants: Vec::new(),
        }
    }

    #[test]
    fn exposition_has_prometheus_format() {
        let text = prometheus(&[stats("a\"b\\c\nd"), stats("e")]);
        let want = "# HELP openpath_info What is served; always 1.\n\
            # TYPE openpath_info gauge\n\
            openpath_info{pid=\"7\",name=\"v\",command=\"a\\\"b\\\\c\\nd\",directory=\"\"} 1\n\
            openpath_info{pid=\"7\",name=\"v\",command=\"e\",directory=\"\"} 1\n";
        assert_eq!(&text[..want.len()], want);
        assert!(
            text.contains("\nopenpath_requests_total{pid=\"7\",name=\"v\",request=\"lookup\"} 3\n")
        );
        // Metrics without a sample are left out, and all others are there once.
        assert!(!text.contains("openpath_tenant") && text.ends_with('\n'));
        let types: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let mut once = types.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), types.len());
    }

    #[test]
    fn counters_end_in_total() {
        for metric in METRICS {
            assert_eq!(
                metric.kind == COUNTER,
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
        }
    }
}
