// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the code and the variables of this process in its table of mappings.

use std::collections::HashMap;
use std::{env, fs, io};

use super::sys::Span;

struct Mapping {
    start: usize,
    end: usize,
    /// As in `r-xp`.
    access: String,
    /// Empty without a file.
    file: String,
}

/// The code of a loaded file.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) file: String,
    /// The offset added to its file's addresses.
    pub(crate) bias: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

fn mappings() -> io::Result<Vec<Mapping>> {
    let parse = |line: &str| {
        let (place, rest) = line.split_once(' ')?;
        let (start, end) = place.split_once('-')?;
        let number = |hex| usize::from_str_radix(hex, 16).ok();
        Some(Mapping {
            start: number(start)?,
            end: number(end)?,
            access: rest.split(' ').next()?.to_owned(),
            file: rest.splitn(5, ' ').nth(4)?.trim_start().to_owned(),
        })
    };
    let table = fs::read_to_string("/proc/self/maps")?;
    let unknown = || io::Error::other("the table of mappings has another form");
    let all = table.lines().map(|line| parse(line).ok_or_else(unknown));
    all.collect()
}

/// All loaded files with code.
pub(crate) fn objects() -> io::Result<Vec<Object>> {
    let (mut first, mut objects) = (HashMap::new(), Vec::new());
    for Mapping {
        start,
        end,
        access,
        file,
    } in mappings()?
    {
        let bias = *first.entry(file.clone()).or_insert(start);
        if access.contains('x') && file.starts_with('/') {
            objects.push(Object {
                file,
                bias,
                start,
                end,
            });
        }
    }
    Ok(objects)
}

/// The program's own variables, without those that are read-only by now: where a `static` of the
/// engine would be.
pub(super) fn variables() -> io::Result<Vec<Span>> {
    let program = env::current_exe()?.to_string_lossy().into_owned();
    let (mut spans, mut last) = (Vec::new(), 0);
    for map in mappings()? {
        // Variables that begin as zero follow without a file.
        let own = map.file == program || (map.file.is_empty() && map.start == last);
        if own && map.access.starts_with("rw") {
            last = map.end;
            spans.push(Span {
                name: "variables",
                start: map.start,
                bytes: map.end - map.start,
            });
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
        let holds = |object: &Object| (object.start..object.end).contains(&code);
        assert!(objects().unwrap().iter().any(holds));
        let spans = variables().unwrap();
        for variable in [&ONE, &ZERO] {
            variable.fetch_add(1, Relaxed);
            let at = std::ptr::from_ref(variable).addr();
            assert!(spans.iter().any(|span| span.holds(at)));
        }
    }
}
