// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints each event of a submission ring (`openpath-ring`) as a line, in the format of the
//! kernel's trace of `io_uring`. It is a `tracing` subscriber for that one target.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Prints each event of a ring on standard error, with the seconds since this value was made.
pub(crate) struct Lines(Instant);

impl Lines {
    /// Prints from now on, in every thread.
    ///
    /// # Errors
    /// There is a global subscriber already.
    pub(crate) fn listen() -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
        tracing::subscriber::set_global_default(Self(Instant::now()))
    }
}

/// The name of an event, and its fields as text.
#[derive(Default)]
struct Line {
    name: String,
    fields: String,
}

impl Line {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let name = field.name().replace('_', " ");
        // Writing to a string does not fail.
        let _written = write!(self.fields, ", {name} {value}");
    }
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "ring" => self.add(field, format_args!("{value:016x}")),
            "data" => self.add(field, format_args!("{value:#x}")),
            _ => self.add(field, format_args!("{value}")),
        }
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, format_args!("{}", u8::from(value)));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "event" {
            value.clone_into(&mut self.name);
        } else {
            self.add(field, format_args!("{value}"));
        }
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == openpath_ring::trace::TARGET
    }
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let time = self.0.elapsed();
        let mut line = Line::default();
        event.record(&mut line);
        let (seconds, micros) = (time.as_secs(), time.subsec_micros());
        let fields = line.fields.trim_start_matches(", ");
        // A trace that nobody can read is dropped.
        let _written = writeln!(
            std::io::stderr(),
            "{seconds}.{micros:06}: openpath_ring_{}: {fields}",
            line.name
        );
    }
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}
