// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the code and the variables of this process in its table of mappings.

use std::collections::HashMap;
use std::ops::Range;
use std::{env, fs, io};

use super::sys::Span;

/// A mapping of this process.
struct Mapping {
    at: Range<usize>,
    /// As in `r-xp`.
    access: String,
    /// Empty without a file.
    file: String,
}

fn mappings() -> io::Result<Vec<Mapping>> {
    let parse = |line: &str| {
        let (at, rest) = line.split_once(' ')?;
        let (start, end) = at.split_once('-')?;
        let number = |hex| usize::from_str_radix(hex, 16).ok();
        let at = number(start)?..number(end)?;
        let access = rest.split(' ').next()?.to_owned();
        let file = rest.splitn(5, ' ').nth(4)?.trim_start().to_owned();
        Some(Mapping { at, access, file })
    };
    let table = fs::read_to_string("/proc/self/maps")?;
    let unknown = || io::Error::other("the table of mappings has another form");
    let all = table.lines().map(|line| parse(line).ok_or_else(unknown));
    all.collect()
}

/// The code of each loaded file, and the offset added to the file's addresses.
pub(crate) fn objects() -> io::Result<Vec<(String, usize, Range<usize>)>> {
    let (mut first, mut objects) = (HashMap::new(), Vec::new());
    for Mapping { at, access, file } in mappings()? {
        let bias = *first.entry(file.clone()).or_insert(at.start);
        if access.contains('x') && file.starts_with('/') {
            objects.push((file, bias, at));
        }
    }
    Ok(objects)
}

/// The program's own variables, without those that are read-only by now: where a `static` of the
/// engine would be.
pub(super) fn variables() -> io::Result<Vec<Span>> {
    let program = env::current_exe()?.to_string_lossy().into_owned();
    let (mut spans, mut last) = (Vec::new(), 0);
    for Mapping { at, access, file } in mappings()? {
        // Variables that begin as zero follow without a file.
        let own = file == program || (file.is_empty() && at.start == last);
        if own && access.starts_with("rw") {
            last = at.end;
            let (name, start, bytes) = ("variables", at.start, at.len());
            spans.push(Span { name, start, bytes });
        }
    }
    match spans.is_empty() {
        true => Err(io::Error::other("this program has no variables")),
        false => Ok(spans),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn program_has_code_and_variables() {
        static ONE: AtomicU64 = AtomicU64::new(1);
        static ZERO: AtomicU64 = AtomicU64::new(0);
        let code = objects as *const () as usize;
        let objects = objects().unwrap();
        assert!(objects.iter().any(|(.., at)| at.contains(&code)));
        let spans = variables().unwrap();
        for variable in [&ONE, &ZERO] {
            variable.fetch_add(1, Relaxed);
            let at = std::ptr::from_ref(variable).addr();
            assert!(spans.iter().any(|span| span.holds(at)));
        }
    }
}
