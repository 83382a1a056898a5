//! The kernels' sources, compiled for the CPU by the system's C++ compiler: `kernels/host` says how
//! they run there. For tests without a GPU, which must not be left out: without a compiler they fail.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::Library;

/// Where the kernels are.
fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// A file of `kernels/host` as a library, with these definitions.
pub fn library(file: &str, definitions: &[&str]) -> Library {
    compile(&format!("#include \"host/{file}\"\n"), definitions)
}

/// A C++ source as a library; what it includes is looked for where the kernels are.
///
/// # Panics
/// Where there is no compiler, or it refuses the source.
pub fn compile(source: &str, definitions: &[&str]) -> Library {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("gmhclust-host-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).expect("a folder for what the C++ compiler makes");
    let (source_file, library_file) = (folder.join("source.cpp"), folder.join("library.so"));
    std::fs::write(&source_file, source).expect("a file for the C++ compiler");

    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("c++"));
    // As the kernels are compiled: only what is written as a fused multiply-add is one.
    command
        .args(words)
        .args(["-std=c++17", "-O1", "-ffp-contract=off"]);
    command.args(["-fPIC", "-shared", "-Wno-unknown-pragmas", "-Wl,-Bsymbolic"]);
    command.args(
        definitions
            .iter()
            .map(|definition| format!("-D{definition}")),
    );
    command
        .arg("-I")
        .arg(kernels())
        .arg("-o")
        .arg(&library_file)
        .arg(&source_file);
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
    // SAFETY: no more is run than what sets up the library's own variables.
    let library = unsafe { Library::new(&library_file) }.expect("a library that loads");
    // What is loaded needs no file any more.
    std::fs::remove_dir_all(&folder).expect("the folder to be removed");
    library
}
