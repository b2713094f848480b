//! Maps files to modules: finds the file that a path such as `crate::shm::fastbox` names.

use std::collections::BTreeMap;

use super::imports::{Import, imports};
use crate::source::{Kind, Source, Token};

/// Index of a module, the same as that of its file.
pub(super) type Module = usize;

/// The most re-exports to follow for one path. A longer chain is a circle.
const DEPTH: usize = 8;

/// All modules of the repository.
pub(super) struct Modules<'a> {
    /// The file of each module.
    pub(super) files: Vec<&'a Source>,
    parents: Vec<Option<Module>>,
    children: Vec<BTreeMap<String, Module>>,
    /// The imports and the definitions of each module.
    imports: Vec<Vec<Import>>,
    defined: Vec<Vec<String>>,
    /// Root modules by the name that other crates use: `strait_core`.
    crates: BTreeMap<String, Module>,
}

/// Keywords before the name of an item.
const ITEMS: [&str; 9] =
    ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];

impl<'a> Modules<'a> {
    /// Creates the modules of `files`. `crates` gives the `src` folder of each library and its
    /// name.
    pub(super) fn new(files: Vec<&'a Source>, crates: &[(String, String)]) -> Self {
        let by_name: BTreeMap<String, Module> =
            files.iter().enumerate().map(|(at, file)| (module_path(&file.path), at)).collect();
        let parent_of = |path: &str| {
            let (parent, name) = path.rsplit_once("::")?;
            Some((*by_name.get(parent)?, name.to_owned()))
        };
        let mut parents = vec![None; files.len()];
        let mut children = vec![BTreeMap::new(); files.len()];
        for (path, &at) in &by_name {
            if let Some((parent, name)) = parent_of(path) {
                parents[at] = Some(parent);
                children[parent].insert(name, at);
            }
        }
        let code: Vec<Vec<Token<'_>>> = files.iter().map(|file| file.shipped_code()).collect();
        let crates = crates
            .iter()
            .filter_map(|(folder, name)| Some((name.replace('-', "_"), *by_name.get(folder)?)));
        Self {
            parents,
            children,
            imports: code.iter().map(|code| imports(code)).collect(),
            defined: code.iter().map(|code| defined(code)).collect(),
            crates: crates.collect(),
            files,
        }
    }

    /// Returns the modules from which `module` imports a name, without itself.
    pub(super) fn taken_from(&self, module: Module) -> Vec<Module> {
        let named = self.imports[module].iter().filter_map(|it| self.find(module, &it.path, DEPTH));
        let mut found: Vec<Module> = named.filter(|other| *other != module).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the module that defines what `path` names in `from`, or `None` for another crate or
    /// the standard library.
    fn find(&self, from: Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => self.root(from),
            "self" => from,
            "super" => self.parents[from]?,
            name => match self.children[from].get(name) {
                Some(child) => *child,
                None => *self.crates.get(name)?,
            },
        };
        while let Some((name, further)) = rest.split_first() {
            at = match name.as_str() {
                "super" => self.parents[at]?,
                "self" => at,
                name => match self.children[at].get(name) {
                    Some(child) => *child,
                    None => return Some(self.definer(at, name, depth)),
                },
            };
            rest = further;
        }
        Some(at)
    }

    /// Returns the module that defines `name`, which `module` defines or imports.
    fn definer(&self, module: Module, name: &str, depth: usize) -> Module {
        if depth == 0 || self.defined[module].iter().any(|defined| defined == name) {
            return module;
        }
        let imports = &self.imports[module];
        if let Some(import) = imports.iter().find(|it| it.name.as_deref() == Some(name)) {
            return self.find(module, &import.path, depth - 1).unwrap_or(module);
        }
        let globs = imports.iter().filter(|it| it.is_glob);
        let mut found = globs.filter_map(|it| self.find(module, &it.path, depth - 1));
        found.find(|other| self.defined[*other].iter().any(|it| it == name)).unwrap_or(module)
    }

    fn root(&self, mut module: Module) -> Module {
        while let Some(parent) = self.parents[module] {
            module = parent;
        }
        module
    }
}

/// Returns `core/src/shm/fastbox.rs` as `core/src::shm::fastbox`. A program in `src/bin` is its own
/// root.
fn module_path(file: &str) -> String {
    let (folder, inside) = file.split_once("src/").unwrap_or(("", file));
    let (root, inside) = match inside.strip_prefix("bin/") {
        Some(program) => match program.split_once('/') {
            Some((name, inside)) => (format!("{folder}src/bin/{name}"), inside),
            None => return format!("{folder}src/bin/{}", program.trim_end_matches(".rs")),
        },
        None => (format!("{folder}src"), inside),
    };
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    match inside {
        "lib" | "main" | "mod" => root,
        inside => format!("{root}::{}", inside.replace('/', "::")),
    }
}

/// Returns the names of all items in `code`.
fn defined(code: &[Token<'_>]) -> Vec<String> {
    let is_item = |pair: &&[Token<'_>]| {
        pair[0].kind == Kind::Word && ITEMS.contains(&pair[0].text) && pair[1].kind == Kind::Word
    };
    code.windows(2).filter(is_item).map(|pair| pair[1].text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_modules() {
        assert_eq!(module_path("core/src/lib.rs"), "core/src");
        assert_eq!(module_path("core/src/shm/mod.rs"), "core/src::shm");
        assert_eq!(module_path("core/src/shm/fastbox.rs"), "core/src::shm::fastbox");
        assert_eq!(module_path("shim/cli/src/main.rs"), "shim/cli/src");
        assert_eq!(module_path("tests/src/bin/chaos/main.rs"), "tests/src/bin/chaos");
        assert_eq!(module_path("tests/src/bin/chaos/rank.rs"), "tests/src/bin/chaos::rank");
    }

    #[test]
    fn a_reexport_leads_to_the_definition() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("core/src/lib.rs", "pub mod a; pub mod b;"),
            source("core/src/a/mod.rs", "mod inner; pub use inner::Thing;"),
            source("core/src/a/inner.rs", "pub struct Thing;"),
            source("core/src/b.rs", "use crate::a::Thing; use std::fmt;"),
            source("shim/strait/src/lib.rs", "use strait_core::a::Thing;"),
        ];
        let crates = [("core/src".to_owned(), "strait-core".to_owned())];
        let modules = Modules::new(sources.iter().collect(), &crates);
        assert_eq!(modules.taken_from(3), [2]);
        assert_eq!(modules.taken_from(4), [2]);
        assert!(modules.taken_from(2).is_empty());
    }
}
