//! Tests that the policy is in one table. No other source of the engine or of the devices may
//! compare a size with a figure of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, Item, Lit, Meta};

/// The file of the table, relative to the folder of the workspace.
const TABLE: &str = "cuda/src/policy.rs";
/// The folders of the sources that read the table, relative to the folder of the workspace.
const FOLDERS: [&str; 2] = ["engine/src", "cuda/src"];

/// Figures outside the table with which sources compare, by file. They are limits of a kernel or a
/// driver, sizes of buffers, or settings within one way of using a GPU. No such figure decides
/// which way is faster.
const NO_POLICY: [(&str, &[&str]); 17] = [
    // Limits of kernels, of the driver and of indices.
    (
        "engine/src/planner.rs",
        &["MOST_TREE_CLUSTERS", "MOST_TREE_COLUMNS"],
    ),
    ("cuda/src/blocks/agglomerate.rs", &["MOST_DIMENSIONS"]),
    ("cuda/src/blocks/tasks.rs", &["BALL"]),
    ("cuda/src/agglomerate/agglomerator.rs", &["FEW_COLUMNS"]),
    (
        "cuda/src/tree/arrays.rs",
        &["FEW_COLUMNS", "MOST_IN_REGISTERS"],
    ),
    ("cuda/src/device.rs", &["4", "OLDEST", "OLDEST_DRIVER"]),
    ("cuda/src/distances.rs", &["MAX"]),
    (
        "cuda/src/neighbours/products.rs",
        &["OLDEST", "OTHER_SHARED_BYTES"],
    ),
    ("cuda/src/kmeans/codes.rs", &["CODED_COLUMNS"]),
    ("cuda/src/kmeans/near.rs", &["NEAR_COLUMNS"]),
    ("cuda/src/mean_linkage/rounds.rs", &["LEAST_COORDINATE"]),
    // Sizes of buffers, shares of memory, the largest index, and the smallest number of two digits.
    ("cuda/src/kernels.rs", &["10"]),
    ("cuda/src/kmeans.rs", &["MAX"]),
    ("cuda/src/neighbours/memory_plan.rs", &["3", "4"]),
    // Settings within one way: how many candidates a sweep keeps, whether pages are locked, and how
    // long a wait polls without sleep.
    ("cuda/src/neighbours/search.rs", &["MOST_CANDIDATES"]),
    ("cuda/src/neighbours/references.rs", &["LOCKED_FROM"]),
    ("cuda/src/wait.rs", &["SHORT_WAIT"]),
];

/// As [`NO_POLICY`], for the launches of the tree kernels: limits of the kernels, and sizes of
/// launches.
const OF_TREES: (&str, &[&str]) = (
    "cuda/src/tree/launch.rs",
    &[
        "FEW_POSITIONS",
        "MOST_CLUSTERS",
        "MOST_COLUMNS",
        "MOST_OBSERVATIONS",
        "PATIENCE",
    ],
);

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|suffix| suffix == "rs") {
                found.push(path);
            }
        }
    }
    found
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string().contains("test"),
        _ => false,
    })
}

/// Collects the figures with which a source compares: literals above 2, and constants without the
/// prefix `policy::`.
#[derive(Default)]
struct Figures {
    found: BTreeSet<String>,
}

impl Figures {
    /// Adds the figures of one side of a comparison.
    fn take(&mut self, side: &Expr) {
        match side {
            Expr::Paren(inner) => self.take(&inner.expr),
            Expr::Group(inner) => self.take(&inner.expr),
            Expr::Cast(inner) => self.take(&inner.expr),
            Expr::Unary(inner) => self.take(&inner.expr),
            Expr::Reference(inner) => self.take(&inner.expr),
            Expr::Binary(both) => {
                self.take(&both.left);
                self.take(&both.right);
            }
            Expr::Lit(literal) => {
                let is_small = match &literal.lit {
                    Lit::Int(number) => number.base10_parse::<u64>().is_ok_and(|n| n <= 2),
                    Lit::Float(number) => number.base10_parse::<f64>().is_ok_and(|n| n <= 1.0),
                    _ => true,
                };
                if !is_small {
                    let text = match &literal.lit {
                        Lit::Int(number) => number.to_string(),
                        Lit::Float(number) => number.to_string(),
                        _ => unreachable!("is small"),
                    };
                    self.found.insert(text);
                }
            }
            Expr::Path(path) => {
                let names = path.path.segments.iter();
                let names: Vec<String> = names.map(|name| name.ident.to_string()).collect();
                let last = &names[names.len() - 1];
                let is_constant = last.chars().all(|c| !c.is_lowercase());
                let is_of_table = names.len() > 1 && names[names.len() - 2] == "policy";
                if is_constant && !is_of_table {
                    self.found.insert(last.clone());
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Figures {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            // The compiler checks comparisons of constants.
            Item::Const(item) if item.ident == "_" => return,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_expr_binary(&mut self, both: &'ast syn::ExprBinary) {
        if let BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) = both.op {
            self.take(&both.left);
            self.take(&both.right);
        }
        visit::visit_expr_binary(self, both);
    }
}

fn figures(text: &str) -> BTreeSet<String> {
    let mut figures = Figures::default();
    figures.visit_file(&syn::parse_file(text).unwrap());
    figures.found
}

#[test]
fn sizes_are_compared_with_figures_of_the_table_only() {
    let all: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|name| sources(&path(name)))
        .collect();
    assert!(all.len() > 50, "{} sources", all.len());
    let is_test = |path: &Path| {
        let mut parts = path
            .components()
            .map(|part| part.as_os_str().to_string_lossy());
        parts.any(|part| {
            ["tests", "tests.rs", "testing.rs", "decisions.rs", "host.rs"].contains(&&*part)
        })
    };
    let mut found = BTreeSet::new();
    for source in all.iter().filter(|source| !is_test(source)) {
        let name = name_of(source);
        for figure in figures(&read(source)) {
            found.insert((name.clone(), figure));
        }
    }
    let listed = NO_POLICY.iter().chain([&OF_TREES]);
    let listed: BTreeSet<(String, String)> = listed
        .flat_map(|(name, figures)| {
            figures
                .iter()
                .map(|figure| (name.to_string(), figure.to_string()))
        })
        .collect();
    let beside: Vec<_> = found.difference(&listed).collect();
    assert!(
        beside.is_empty(),
        "figures that are not in policy.rs: {beside:?}"
    );
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(
        gone.is_empty(),
        "figures that are compared with no more: {gone:?}"
    );
}

/// The name of a source, relative to the folder of the workspace.
fn name_of(source: &Path) -> String {
    let folder = path("").canonicalize().unwrap();
    let source = source.canonicalize().unwrap();
    let name = source.strip_prefix(folder).unwrap().to_str().unwrap();
    name.replace('\\', "/")
}

#[test]
fn figures_are_seen_wherever_they_are_compared() {
    let inside = |text: &str| figures(&format!("fn f(n: usize) -> bool {{ {text} }}"));
    let none = BTreeSet::new();
    for (text, figure) in [
        ("n >= 4096", "4096"),
        ("4 * n <= MOST", "4"),
        ("n > FEW + n / RATIO", "RATIO"),
        ("n < (LEAST as usize)", "LEAST"),
        ("if n < own::LEAST { true } else { false }", "LEAST"),
        ("[0].iter().any(|_| n > 0.5 + 1.5)", "1.5"),
    ] {
        assert!(inside(text).contains(figure), "{text}");
    }
    assert_eq!(
        inside("n >= policy::LEAST && n > 1 && n > other.least"),
        none
    );
    assert_eq!(inside("n == 4096"), none);
    assert_eq!(figures("#[cfg(test)] fn f() -> bool { 3 < 4 }"), none);
}

#[test]
fn every_figure_tells_what_it_counts_and_where_it_came_from() {
    let table = syn::parse_file(&read(&path(TABLE))).unwrap();
    let mut figures = 0;
    for item in &table.items {
        let Item::Const(item) = item else { continue };
        figures += 1;
        let lines = item
            .attrs
            .iter()
            .filter_map(|attribute| match &attribute.meta {
                Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
                    Expr::Lit(text) => match &text.lit {
                        Lit::Str(text) => Some(text.value()),
                        _ => None,
                    },
                    _ => None,
                },
                _ => None,
            });
        let lines: Vec<String> = lines.collect();
        for label in [" - Counts: ", " - Run: ", " - If wrong: "] {
            let count = lines.iter().filter(|line| line.starts_with(label)).count();
            assert_eq!(count, 1, "{}: {label}", item.ident);
        }
    }
    assert!(figures > 20, "{figures} figures");
}
