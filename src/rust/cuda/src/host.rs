//! Compiles the kernels' sources for the CPU with the system's C++ compiler, for tests without a
//! GPU. `kernels/host` says how the kernels run on the CPU. The tests are never skipped: they fail
//! if there is no compiler.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::{Library, Symbol};

use gmhclust_core::testing::Random;

/// The folder of the kernels.
fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// Compiles a file of `kernels/host` to a library, with these macro definitions.
pub fn library(file: &str, definitions: &[&str]) -> Library {
    compile(&format!("#include \"host/{file}\"\n"), definitions)
}

/// As [`library`], for a file that runs kernels with several blocks, in the memory of `memory.cpp`.
pub fn library_with_memory(file: &str, definitions: &[&str]) -> Library {
    let kernels = format!("#include \"host/{file}\"\n");
    // The sanitizer inserts calls before each access. memory.cpp defines the called functions.
    let mut flags = flags_of(definitions);
    flags.push("-fsanitize=thread".to_owned());
    let memory = "#include \"host/memory.cpp\"\n".to_owned();
    compile_parts(&[(kernels, flags), (memory, vec!["-O2".to_owned()])])
}

/// Compiles a C++ source to a library. Its includes are in the folder of the kernels.
///
/// # Panics
/// If there is no compiler, or if it rejects the source.
pub fn compile(source: &str, definitions: &[&str]) -> Library {
    compile_parts(&[(source.to_owned(), flags_of(definitions))])
}

fn flags_of(definitions: &[&str]) -> Vec<String> {
    let flag = |definition| format!("-D{definition}");
    definitions.iter().map(flag).collect()
}

/// Compiles C++ sources, each with its own options, to a library.
fn compile_parts(parts: &[(String, Vec<String>)]) -> Library {
    in_folder(|folder| {
        let library_file = folder.join("library.so");
        let objects = objects(folder, parts);
        run_compiler(|command| {
            command
                .args(["-shared", "-pthread", "-Wl,-Bsymbolic", "-o"])
                .arg(&library_file)
                .args(&objects);
        });
        // SAFETY: loading runs only the initialisation of the library's own variables. A loaded
        // library does not need its file any more.
        unsafe { Library::new(&library_file) }.expect("a library that loads")
    })
}

/// Compiles a file of `kernels/host` to a program with ThreadSanitizer, with these macro
/// definitions, and runs it with each of these lists of arguments. Returns what the sanitizer
/// reports.
pub fn races(file: &str, definitions: &[&str], calls: &[&[&str]]) -> Vec<String> {
    let mut flags = flags_of(definitions);
    flags.extend(["-fsanitize=thread".to_owned(), "-g".to_owned()]);
    in_folder(|folder| {
        let program = folder.join("program");
        let source = format!("#include \"host/{file}\"\n");
        let objects = objects(folder, &[(source, flags)]);
        run_compiler(|command| {
            let command = command.args(["-fsanitize=thread", "-pthread", "-o"]);
            command.arg(&program).args(&objects);
        });
        let reports = calls.iter().map(|arguments| {
            let output = Command::new(&program).args(*arguments).output();
            let output = output.expect("a program that starts");
            let report = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.success() {
                true => String::new(),
                false => format!("{arguments:?}: {}\n{report}", output.status),
            }
        });
        reports.filter(|report| !report.is_empty()).collect()
    })
}

/// Calls a function with a folder of its own, which is removed afterwards.
pub fn in_folder<T>(work: impl FnOnce(&Path) -> T) -> T {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gmhclust-host-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).expect("a folder for what the C++ compiler makes");
    let result = work(&folder);
    std::fs::remove_dir_all(&folder).expect("the folder to be removed");
    result
}

/// Compiles C++ sources, each with its own options, to files in a folder.
fn objects(folder: &Path, parts: &[(String, Vec<String>)]) -> Vec<PathBuf> {
    let compiled = parts.iter().enumerate().map(|(number, (source, flags))| {
        let source_file = folder.join(format!("source{number}.cpp"));
        let object = folder.join(format!("source{number}.o"));
        std::fs::write(&source_file, source).expect("a file for the C++ compiler");
        // As when kernels are compiled for a GPU, the compiler must not contract expressions to
        // fused multiply-adds.
        run_compiler(|command| {
            command
                .args([
                    "-std=c++17",
                    "-O1",
                    "-ffp-contract=off",
                    "-fPIC",
                    "-pthread",
                ])
                .arg("-Wno-unknown-pragmas")
                .args(flags)
                .arg("-I")
                .arg(kernels())
                .arg("-c")
                .arg("-o")
                .arg(&object)
                .arg(&source_file);
        });
        object
    });
    compiled.collect()
}

/// Runs the C++ compiler with some arguments.
fn run_compiler(add_arguments: impl FnOnce(&mut Command)) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("c++"));
    command.args(words);
    add_arguments(&mut command);
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "a C++ compiler is needed to hold the kernels against the CPU's code, and `{compiler}` \
             does not start: install one, or name it in CXX ({error})"
        )
    });
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "`{compiler}` refuses the kernels' code:\n{messages}"
    );
}

/// A function of a library.
///
/// # Safety
/// `F` is the type of the function in the library's source.
pub unsafe fn function<'a, F>(library: &'a Library, name: &str) -> Symbol<'a, F> {
    // SAFETY: as the caller says.
    let found = unsafe { library.get(name.as_bytes()) };
    found.unwrap_or_else(|error| panic!("the kernels' code has no {name}: {error}"))
}

/// Whether two numbers have the same bits, or both are NaN.
pub fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// A finite number of any magnitude: a random number, or a number at an end of the range.
pub fn extreme(random: &mut Random) -> f64 {
    const ENDS: [f64; 10] = [
        0.0,
        1.0,
        f64::MIN_POSITIVE,
        5e-324,
        3e-310,
        f64::EPSILON,
        1e-150,
        1e150,
        1e300,
        f64::MAX,
    ];
    let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
    sign * match random.below(3) {
        0 => ENDS[random.below(ENDS.len())],
        1 => random.uniform() * 10f64.powi(random.below(600) as i32 - 300),
        _ => random.normal(),
    }
}
