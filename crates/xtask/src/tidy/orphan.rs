// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks rule `orphan`: every source file belongs to a module, because otherwise it is not
//! compiled and its tests never run.

use super::lexer::has_word;
use super::{Report, Tree};

const RULE: &str = "orphan";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for file in tree.rust() {
        let Some((folder, name)) = module_of(&file.path) else {
            continue;
        };
        let parents = if folder.ends_with("/src") {
            [format!("{folder}/lib.rs"), format!("{folder}/main.rs")]
        } else {
            [format!("{folder}/mod.rs"), format!("{folder}.rs")]
        };
        let declaration = format!("mod {name};");
        let named = parents
            .iter()
            .filter_map(|path| tree.get(path))
            .any(|parent| {
                parent
                    .lines
                    .iter()
                    .any(|line| line.code.contains(&declaration) && has_word(&line.code, name))
            });
        if !named {
            report.fail(
                RULE,
                &file.path,
                0,
                format!("no parent says `{declaration}`"),
            );
        }
    }
}

/// The folder of the parent and the name of the module of this path; `None` for the root of a
/// crate.
fn module_of(path: &str) -> Option<(&str, &str)> {
    let (_, inside) = path.split_once("/src/")?;
    if inside.starts_with("bin/") {
        return None;
    }
    let (folder, file) = path.rsplit_once('/')?;
    match file {
        "lib.rs" | "main.rs" => None,
        "mod.rs" => folder.rsplit_once('/'),
        _ => Some((folder, file.strip_suffix(".rs")?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::check;

    #[test]
    fn file_without_module_is_reported() {
        let lost = [
            ("crates/a/src/lib.rs", "mod y;\n// mod x;\n"),
            ("crates/a/src/x.rs", ""),
        ];
        assert_eq!(planted(check, &lost).len(), 1);
        let lost = [
            ("crates/a/src/lib.rs", "mod ax;\n"),
            ("crates/a/src/x/mod.rs", ""),
        ];
        assert_eq!(planted(check, &lost).len(), 1);
        let lost = [
            ("crates/a/src/x/mod.rs", "mod z;\n"),
            ("crates/a/src/x/y.rs", ""),
        ];
        assert_eq!(planted(check, &lost).len(), 2);
    }

    #[test]
    fn both_module_layouts_are_accepted() {
        let files = [
            ("crates/a/src/lib.rs", "pub mod x;\nmod y;\n"),
            ("crates/a/src/x/mod.rs", "pub(crate) mod one;\n"),
            ("crates/a/src/x/one.rs", ""),
            ("crates/a/src/y.rs", "#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/y/tests.rs", ""),
            ("crates/a/src/bin/tool.rs", ""),
            ("crates/a/tests/t.rs", ""),
            ("crates/b/src/main.rs", "mod z;\n"),
            ("crates/b/src/z.rs", ""),
        ];
        assert_eq!(planted(check, &files), []);
    }
}
