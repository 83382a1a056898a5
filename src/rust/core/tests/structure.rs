//! Tests that modules import from below only: the imports among the files of a crate form no cycle,
//! and a crate uses only crates below it.
//!
//! A path names the deepest module on it, and so the file of that module; a name that a `mod.rs`
//! re-exports belongs to the `mod.rs`. Declaring a module, and re-exporting from it, does not count
//! as an import. Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// The segments of a path from the root of a crate.
type Module = Vec<String>;

/// A file and the modules in it.
struct File {
    /// The path from the crate's folder of sources.
    name: String,
    module: Module,
    syntax: syn::File,
}

/// The files of the crate in this folder of sources, without files of tests.
fn files(sources: &Path) -> Vec<File> {
    let mut files = Vec::new();
    let mut open = vec![(sources.join("lib.rs"), Vec::new())];
    while let Some((path, module)) = open.pop() {
        let text = std::fs::read_to_string(&path).unwrap();
        let syntax = syn::parse_file(&text).unwrap();
        let stem = path.file_stem().unwrap();
        let folder = match stem.to_str() {
            Some("lib" | "mod") => path.parent().unwrap().to_owned(),
            _ => path.with_extension(""),
        };
        for child in syntax.items.iter().filter_map(declared) {
            let child = child.ident.to_string();
            let inside = [module.clone(), vec![child.clone()]].concat();
            open.push((file_of(&folder, &child), inside));
        }
        let name = path.strip_prefix(sources).unwrap();
        files.push(File {
            name: name.to_str().unwrap().replace('\\', "/"),
            module,
            syntax,
        });
    }
    files
}

/// The module that an item declares, if the module has its own file and is not for tests.
fn declared(item: &Item) -> Option<&ItemMod> {
    match item {
        Item::Mod(child) if child.content.is_none() && !is_for_tests(&child.attrs) => Some(child),
        _ => None,
    }
}

fn file_of(folder: &Path, child: &str) -> PathBuf {
    let own = folder.join(child).with_extension("rs");
    if own.exists() {
        own
    } else {
        folder.join(child).join("mod.rs")
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let tokens = list.tokens.to_string();
            tokens
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "test")
        }
        _ => false,
    })
}

/// Collects the modules and items that a file names.
struct Imports<'a> {
    modules: &'a BTreeMap<Module, usize>,
    /// The module that is being visited.
    inside: Module,
    found: BTreeSet<Module>,
}

impl Imports<'_> {
    /// Records a path if it leads into this crate.
    fn take(&mut self, path: &[String]) {
        let absolute = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "self" => [&self.inside[..], &path[1..]].concat(),
            "super" => {
                let up = path
                    .iter()
                    .take_while(|segment| *segment == "super")
                    .count();
                let depth = self.inside.len().saturating_sub(up);
                [&self.inside[..depth], &path[up..]].concat()
            }
            child => {
                let inside = [self.inside.clone(), vec![child.to_owned()]].concat();
                if !self.modules.contains_key(&inside) {
                    return;
                }
                [&self.inside[..], path].concat()
            }
        };
        self.found.insert(absolute);
    }

    /// Records all paths of a `use`.
    fn take_tree(&mut self, mut path: Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                self.take_tree(path, &next.tree);
            }
            UseTree::Group(group) => {
                let trees = group.items.iter();
                trees.for_each(|tree| self.take_tree(path.clone(), tree));
            }
            UseTree::Name(name) if name.ident != "self" => {
                path.push(name.ident.to_string());
                self.take(&path);
            }
            UseTree::Rename(name) if name.ident != "self" => {
                path.push(name.ident.to_string());
                self.take(&path);
            }
            UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => self.take(&path),
        }
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Const(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.inside.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inside.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            self.take_tree(Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let segments: Vec<String> = segments.map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.take(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let tokens = call.tokens.to_string().replace(" :: ", "::");
        for path in tokens.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let segments: Vec<String> = path.split("::").map(str::to_owned).collect();
            if segments.len() > 1 {
                self.take(&segments);
            }
        }
    }
}

/// For each file, the files that it imports from.
fn imports(files: &[File]) -> Vec<BTreeSet<usize>> {
    let numbers = files.iter().enumerate();
    let modules: BTreeMap<Module, usize> = numbers
        .map(|(number, file)| (file.module.clone(), number))
        .collect();
    let of_file = |(number, file): (usize, &File)| {
        let mut imports = Imports {
            modules: &modules,
            inside: file.module.clone(),
            found: BTreeSet::new(),
        };
        imports.visit_file(&file.syntax);
        let deepest = |path: &Module| {
            let mut lengths = (0..=path.len()).rev();
            lengths.find_map(|length| modules.get(&path[..length]).copied())
        };
        let targets = imports.found.iter().filter_map(deepest);
        targets.filter(|&target| target != number).collect()
    };
    files.iter().enumerate().map(of_file).collect()
}

/// The cycles: sets of files that all reach each other.
fn circles(imports: &[BTreeSet<usize>]) -> BTreeSet<BTreeSet<usize>> {
    let reached_from = |start: usize| {
        let mut reached = BTreeSet::new();
        let mut open: Vec<usize> = imports[start].iter().copied().collect();
        while let Some(file) = open.pop() {
            if reached.insert(file) {
                open.extend(&imports[file]);
            }
        }
        reached
    };
    let reached: Vec<_> = (0..imports.len()).map(reached_from).collect();
    let circle_of = |file: usize| -> BTreeSet<usize> {
        let others = reached[file].iter().copied();
        others
            .filter(|&other| reached[other].contains(&file))
            .collect()
    };
    let circles = (0..imports.len()).map(circle_of);
    circles.filter(|circle| !circle.is_empty()).collect()
}

/// The folders of all crates, from the workspace's folder, and the crates that each may use.
const CRATES: [(&str, &[&str]); 5] = [
    ("core", &[]),
    ("cuda", &["gmhclust-core"]),
    ("engine", &["gmhclust-core", "gmhclust-cuda"]),
    ("reserve", &["gmhclust-core"]),
    // The boundary to R.
    (
        ".",
        &["gmhclust-core", "gmhclust-engine", "gmhclust-reserve"],
    ),
];

/// The folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The cycles of the crate in this folder: which file imports which.
fn circles_of(folder: &str) -> Vec<String> {
    let sources = workspace().join(folder).join("src");
    let files = files(&sources);
    assert!(files.len() > 3, "{folder} has {} files", files.len());
    let imports = imports(&files);
    let name = |file: &usize| format!("{folder}/src/{}", files[*file].name);
    let told = |circle: &BTreeSet<usize>| {
        let inside = |file: &usize| -> Vec<String> {
            let targets = imports[*file].intersection(circle);
            targets
                .map(|target| format!("{} imports {}", name(file), name(target)))
                .collect()
        };
        let mut edges: Vec<String> = circle.iter().flat_map(inside).collect();
        edges.sort();
        edges.join("\n")
    };
    circles(&imports).iter().map(told).collect()
}

#[test]
fn files_import_each_other_in_no_circle() {
    let found: Vec<String> = CRATES
        .iter()
        .flat_map(|(folder, _)| circles_of(folder))
        .collect();
    assert!(found.is_empty(), "circles:\n{}", found.join("\n\n"));
}

/// The crates of this workspace in a manifest: those that the crate needs, or that its tests do.
fn known(manifest: &str) -> BTreeSet<&str> {
    let mut section = "";
    let mut known = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            // A section of one dependency, as in [dependencies.gmhclust-core].
            if let Some((kind, name)) = section.rsplit_once('.') {
                if kind.ends_with("dependencies") && name.starts_with("gmhclust") {
                    known.insert(name);
                }
            }
        } else if section.ends_with("dependencies") {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if name.starts_with("gmhclust") {
                known.insert(name);
            }
        }
    }
    known
}

#[test]
fn crates_know_only_those_below_them() {
    let manifest_of = |folder: &str| {
        let manifest = workspace().join(folder).join("Cargo.toml");
        std::fs::read_to_string(manifest).unwrap()
    };
    for (folder, expected) in CRATES {
        let manifest = manifest_of(folder);
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        assert_eq!(known(&manifest), expected, "{folder}");
    }
    let listed = CRATES.iter().map(|(folder, _)| *folder);
    let listed: Vec<_> = listed
        .filter(|folder| *folder != ".")
        .map(|folder| format!("\"{folder}\""))
        .collect();
    let members = format!("members = [{}]", listed.join(", "));
    assert!(manifest_of(".").contains(&members), "{members}");
}

#[test]
fn dependencies_are_seen_in_every_section() {
    let manifest = |section: &str| format!("[package]\nname = \"gmhclust\"\n{section}\n");
    for (section, name) in [
        (
            "[dependencies]\nrayon = \"1\"\ngmhclust-a = {}",
            "gmhclust-a",
        ),
        (
            "[dev-dependencies]\ngmhclust-b.path = \"../b\"",
            "gmhclust-b",
        ),
        ("[dependencies.gmhclust-c]\npath = \"../c\"", "gmhclust-c"),
        (
            "[target.'cfg(unix)'.dependencies]\ngmhclust-d={}",
            "gmhclust-d",
        ),
    ] {
        assert_eq!(known(&manifest(section)), BTreeSet::from([name]));
    }
    let features = "[dependencies]\nrayon = \"1\"\n[features]\nwide = [\"gmhclust-core/avx512\"]";
    assert!(known(&manifest(features)).is_empty());
}

/// All Rust sources in a folder, including tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|suffix| suffix == "rs") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn no_crate_includes_the_sources_of_another() {
    let folders = CRATES.iter().flat_map(|(folder, _)| {
        let parts = ["src", "tests", "examples"];
        parts.map(|part| workspace().join(folder).join(part))
    });
    let all: Vec<PathBuf> = folders.flat_map(|folder| sources(&folder)).collect();
    assert!(all.len() > 100, "{} sources", all.len());
    // The fuzz targets are a separate workspace, and this test includes them.
    let all = all.iter().filter(|path| !path.ends_with("tests/fuzz.rs"));
    // Written so that this file has neither.
    let ways = [concat!("#[", "path"), concat!("include", "!(")];
    for path in all {
        let text = std::fs::read_to_string(path).unwrap();
        let found = ways.iter().find(|way| text.contains(**way));
        assert_eq!(found, None, "{}", path.display());
    }
}

/// A file of an imaginary crate.
fn file(name: &str, text: &str) -> File {
    let module = name.trim_end_matches(".rs").trim_end_matches("/mod");
    let segments = module.split('/').filter(|segment| *segment != "lib");
    File {
        name: name.to_owned(),
        module: segments.map(str::to_owned).collect(),
        syntax: syn::parse_file(text).unwrap(),
    }
}

#[test]
fn imports_are_seen_wherever_they_are_and_declarations_are_none() {
    let top = |text| {
        let files = [
            file("lib.rs", "mod top; mod base; pub use base::Noun;"),
            file("top/mod.rs", text),
            file("top/part.rs", ""),
            file("base.rs", ""),
        ];
        let imports = imports(&files);
        let names = imports[1].iter().map(|&target| files[target].name.clone());
        names.collect::<Vec<_>>()
    };
    let nothing = Vec::<String>::new();
    assert_eq!(top("mod part; pub use part::Noun;"), nothing);
    assert_eq!(
        top("#[cfg(test)] mod tests { use crate::base::Noun; }"),
        nothing
    );
    assert_eq!(top("#[cfg(test)] fn f() -> crate::base::Noun {}"), nothing);
    assert_eq!(top("use std::part::Noun;"), nothing);
    assert_eq!(top("use crate::Noun;"), ["lib.rs"]);
    assert_eq!(top("use super::base::{self, f};"), ["base.rs"]);
    assert_eq!(
        top("use crate::{base::f, top::part};"),
        ["top/part.rs", "base.rs"]
    );
    assert_eq!(top("mod part; use part::Noun as Other;"), ["top/part.rs"]);
    assert_eq!(top("fn f() { part::f() }"), ["top/part.rs"]);
    assert_eq!(top("fn f() { vec![super::base::f()] }"), ["base.rs"]);
    assert_eq!(top("mod inner { use super::part::Noun; }"), ["top/part.rs"]);
}

#[test]
fn circles_are_found() {
    let circle = |files: &[usize]| files.iter().copied().collect::<BTreeSet<_>>();
    let imports = [
        circle(&[1, 3]),
        circle(&[2]),
        circle(&[0]),
        circle(&[]),
        circle(&[0]),
    ];
    assert_eq!(circles(&imports), BTreeSet::from([circle(&[0, 1, 2])]));
}
