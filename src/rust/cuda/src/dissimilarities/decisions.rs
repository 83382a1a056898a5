//! Compares the arithmetic of dissimilarities.cu with the Rust code bit for bit. No GPU is needed:
//! kernels/host compiles the kernels for the CPU.

use std::sync::OnceLock;

use libloading::{Library, Symbol};

use super::launch::Step;
use crate::host::{self, extreme, same};
use gmhclust_core::linkage::lance_williams::{Linkage, MergedPair, Recurrence, StoredPrecision};
use gmhclust_core::testing::Random;

/// A function of host/dissimilarities.cpp, for the type in which dissimilarities are stored.
///
/// # Safety
/// As [`host::function`].
unsafe fn function<F>(precision: StoredPrecision, name: &str) -> Symbol<'static, F> {
    static DOUBLE: OnceLock<Library> = OnceLock::new();
    static SINGLE: OnceLock<Library> = OnceLock::new();
    let (library, stored) = match precision {
        StoredPrecision::Double => (&DOUBLE, "STORED=double"),
        StoredPrecision::Single => (&SINGLE, "STORED=float"),
    };
    let library = library.get_or_init(|| host::library("dissimilarities.cpp", &[stored]));
    // SAFETY: as the caller says.
    unsafe { host::function(library, name) }
}

#[test]
fn updates_have_the_bits_of_the_cpu() {
    type Function = unsafe extern "C" fn(u32, *const Step, f64, f64, f64) -> f64;
    let mut random = Random::of(17);
    for precision in [StoredPrecision::Double, StoredPrecision::Single] {
        // SAFETY: the function has this type.
        let update = unsafe { function::<Function>(precision, "host_update") };
        for linkage in Linkage::ALL
            .into_iter()
            .filter(|linkage| linkage.is_reducible())
        {
            let recurrence = Recurrence { linkage, precision };
            for case in 0..5_000 {
                // Larger magnitudes are rejected.
                let largest = if precision == StoredPrecision::Double {
                    1e150
                } else {
                    1e30
                };
                let mut value = || match case % 3 {
                    0 => random.normal(),
                    1 => random.below(4) as f64,
                    _ => extreme(&mut random).clamp(-largest, largest),
                };
                let [height, first, second] = [value(), value(), value()];
                let mut size = || match case % 2 {
                    0 => 1.0 + random.below(1_000) as f64,
                    _ => random.uniform() * 10f64.powi(random.below(40) as i32 - 20),
                };
                let (sizes, third) = ([size(), size()], size());
                let step = Step {
                    height,
                    sizes,
                    lower: 0,
                    higher: 1,
                    merged: [0, 0],
                };
                let expected =
                    recurrence.update(&MergedPair { height, sizes }, first, second, third);
                // SAFETY: the step lives as long as the call.
                let found = unsafe { update(linkage as u32, &step, first, second, third) };
                // The minimum or maximum of two zeros may have either sign, on the CPU, too.
                assert!(
                    same(found, expected) || found == expected,
                    "{found} is not {expected}: {recurrence:?} {step:?} {first} {second} {third}"
                );
            }
        }
    }
}
