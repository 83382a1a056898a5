//! Kernels compiled for several instruction sets: AVX-512, AVX2 with FMA, NEON and the baseline.

use pulp::bytemuck::bytes_of;
use pulp::{Arch, Simd, WithSimd};

/// Runs `kernel` with the widest instruction set that this processor has.
///
/// `with_simd` and all functions that it calls must be `#[inline(always)]`: only inlined code is
/// compiled for the chosen instruction set, and `mul_add` is an instruction only in such code.
#[inline]
pub fn dispatch<K: WithSimd>(kernel: K) -> K::Output {
    Arch::new().dispatch(kernel)
}

/// Singles as whole registers. The length of `values` must be a multiple of the widest register.
#[inline(always)]
pub fn singles<S: Simd>(values: &[f32]) -> &[S::f32s] {
    S::as_simd_f32s(values).0
}

/// As [`singles`].
#[inline(always)]
pub fn singles_mut<S: Simd>(values: &mut [f32]) -> &mut [S::f32s] {
    S::as_mut_simd_f32s(values).0
}

/// Doubles as whole registers. The length of `values` must be a multiple of the widest register.
#[inline(always)]
pub fn doubles<S: Simd>(values: &[f64]) -> &[S::f64s] {
    S::as_simd_f64s(values).0
}

/// As [`doubles`].
#[inline(always)]
pub fn doubles_mut<S: Simd>(values: &mut [f64]) -> &mut [S::f64s] {
    S::as_mut_simd_f64s(values).0
}

/// The lanes of a mask as bits; the lowest bit is the first lane.
#[inline(always)]
pub fn lanes<S: Simd>(mask: S::m32s) -> u32 {
    let bytes = bytes_of(&mask);
    if bytes.len() == 4 * S::F32_LANES {
        let lanes = bytes.chunks_exact(4).rev();
        return lanes.fold(0, |bits, lane| (bits << 1) | u32::from(lane[0] & 1));
    }
    // One bit per lane.
    let bits = bytes.iter().rev();
    bits.fold(0, |bits, &byte| (bits << 8) | u32::from(byte))
}
