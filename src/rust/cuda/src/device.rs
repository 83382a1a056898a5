//! CUDA devices: which there are, which can be used, and the kernels loaded on one.

use std::collections::{BTreeSet, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{result, sys, CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

use crate::kernels::{Bundle, Kernels};
use gmhclust_core::error::{Error, Result};

/// The oldest compute capability that the kernels are compiled for.
const OLDEST: (i32, i32) = (7, 0);

/// The oldest CUDA version whose drivers take the kernels' PTX.
const OLDEST_DRIVER: i32 = 12_040;

/// The result of a call of the driver.
pub type DriverResult<T> = std::result::Result<T, DriverError>;

/// A device, and why it cannot be used, if so.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub index: usize,
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Memory in bytes; free memory is `None` where the device could not be opened.
    pub total_memory: usize,
    pub free_memory: Option<usize>,
    /// The CUDA version that the driver supports, as 1000·major + 10·minor.
    pub driver: i32,
    /// Why the device cannot be used.
    pub problem: Option<String>,
}

/// All CUDA devices of this machine.
///
/// # Errors
/// `Error::Device` where there is no CUDA driver, or it does not work.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    guarded(|| {
        result::init().map_err(|error| device_error("the CUDA driver does not start", &error))?;
        let count = result::device::get_count()
            .map_err(|error| device_error("the CUDA driver cannot count its devices", &error))?;
        (0..count as usize).map(describe).collect()
    })
}

/// Runs `body` where a CUDA driver can be loaded. A driver that lacks a function makes cudarc
/// panic; here that becomes an error.
fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    let guarded = || {
        // SAFETY: only tries to load the driver's library and its functions.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::Device(
                "no CUDA driver was found on this machine".into(),
            ));
        }
        body()
    };
    catch_unwind(AssertUnwindSafe(guarded)).unwrap_or_else(|_| {
        Err(Error::Device(
            "the CUDA driver of this machine is too old, the kernels need one for CUDA 12.4 \
             (version 550) or newer"
                .into(),
        ))
    })
}

fn describe(index: usize) -> Result<DeviceInfo> {
    let failed = |error| device_error(&format!("CUDA device {index} does not answer"), &error);
    let device = result::device::get(index as i32).map_err(failed)?;
    // SAFETY: `device` was returned by the driver just now.
    let attribute = |which| unsafe { result::device::get_attribute(device, which) };
    let capability = (
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).map_err(failed)?,
        attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).map_err(failed)?,
    );
    let mut driver = 0;
    // SAFETY: the driver writes one integer to a valid place.
    unsafe { sys::cuDriverGetVersion(&mut driver) }
        .result()
        .map_err(failed)?;
    // SAFETY: as above.
    let total_memory = unsafe { result::device::total_mem(device) }.map_err(failed)?;
    let mut info = DeviceInfo {
        index,
        name: result::device::get_name(device).map_err(failed)?,
        capability,
        total_memory,
        free_memory: None,
        driver,
        problem: None,
    };
    if capability < OLDEST {
        info.problem = Some(format!(
            "its compute capability is {}.{}, the kernels need {}.{} or newer",
            capability.0, capability.1, OLDEST.0, OLDEST.1
        ));
        return Ok(info);
    }
    if driver < OLDEST_DRIVER {
        info.problem = Some(format!(
            "its driver is for CUDA {}.{}, the kernels need one for CUDA {}.{} (version 550) or \
             newer",
            driver / 1000,
            driver % 1000 / 10,
            OLDEST_DRIVER / 1000,
            OLDEST_DRIVER % 1000 / 10
        ));
        return Ok(info);
    }
    match CudaContext::new(index).and_then(|context| memory_info(&context)) {
        Ok((free, _)) => info.free_memory = Some(free),
        Err(error) if lost().contains(&index) => {
            let what = "its context was lost, and this process does not get another";
            info.problem = Some(format!("{what} ({}); restart R", say(&error)));
        }
        Err(error) => info.problem = Some(format!("it cannot be opened: {}", say(&error))),
    }
    Ok(info)
}

/// Whether a context is lost, and with it all memory of this process on the device. A kernel that
/// fails loses the context; every later call of the driver then returns the kernel's error.
fn is_lost(context: &CudaContext) -> bool {
    // Clears errors of earlier calls that freed memory.
    let _ = context.check_err();
    if context.bind_to_thread().is_err() {
        return true;
    }
    // SAFETY: asks about the null stream, which every context has.
    let state = unsafe { sys::cuStreamQuery(std::ptr::null_mut()) };
    !matches!(
        state,
        CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_NOT_READY
    )
}

/// An open device.
pub struct Device {
    pub context: Arc<CudaContext>,
    /// Loaded at their first use: a driver may take seconds to compile a module for the first time.
    modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
    bundle: Bundle,
    index: usize,
}

/// The devices that this process has open. Opening one takes longer than a small clustering.
static OPEN: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());

/// The devices whose contexts this process has lost.
static LOST: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn lost() -> MutexGuard<'static, BTreeSet<usize>> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Device `index`, opened at its first use.
    ///
    /// # Errors
    /// `Error::Device` where that does not work.
    pub fn shared(index: usize) -> Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|device| device.index == index) {
            // The loss of one context loses the other contexts of the process.
            let others_are_lost = !lost().is_empty();
            if !(others_are_lost && is_lost(&open[at].context)) {
                return Ok(open[at].clone());
            }
            lost().insert(index);
            open.remove(at);
        }
        let device = Arc::new(Self::open(index)?);
        open.push(device.clone());
        Ok(device)
    }

    /// After a failure on the device, closes it at the end of its present uses, so that the next
    /// use opens it afresh: a context that has failed keeps failing.
    pub fn forget_on_failure(&self, error: &Error) {
        if let Error::Device(_) = error {
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|device| !std::ptr::eq(&**device, self));
        }
    }

    /// Opens device `index`.
    ///
    /// # Errors
    /// `Error::Device` where that does not work.
    fn open(index: usize) -> Result<Self> {
        let info = devices()?.into_iter().nth(index).ok_or_else(|| {
            Error::Device(format!("there is no CUDA device {index} on this machine"))
        })?;
        if let Some(problem) = info.problem {
            return Err(Error::Device(format!(
                "CUDA device {index} ({}) cannot be used: {problem}",
                info.name
            )));
        }
        let bundle = Bundle::open()?;
        guarded(|| {
            let context = CudaContext::new(index)
                .map_err(|error| device_error(&format!("CUDA device {index}"), &error))?;
            // SAFETY: every buffer here is used on the one stream that it was made on.
            unsafe { context.disable_event_tracking() };
            Ok(Self {
                context,
                modules: Mutex::new(HashMap::new()),
                bundle,
                index,
            })
        })
    }

    /// Its number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        format!("CUDA device {}", self.index)
    }

    /// One of the kernels of a module.
    pub fn kernel(&self, kernels: &Kernels, name: &str) -> Result<CudaFunction> {
        self.try_kernel(kernels, name)
            .map_err(|error| self.error(&format!("kernel {name}"), &error))
    }

    /// As [`Device::kernel`], with the driver's own error.
    pub fn try_kernel(&self, kernels: &Kernels, name: &str) -> DriverResult<CudaFunction> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.contains_key(kernels.name) {
            let ptx = Ptx::from_src(self.bundle.ptx(kernels));
            let module = self.context.load_module(ptx)?;
            modules.insert(kernels.name, module);
        }
        modules[kernels.name].load_function(name)
    }

    /// Bytes of free memory.
    pub fn free_memory(&self) -> Result<usize> {
        let (free, _) = memory_info(&self.context)
            .map_err(|error| self.error("asking for its free memory", &error))?;
        Ok(free)
    }

    /// Compute capability, major and minor, and bytes of shared memory that a block may have.
    pub fn abilities(&self) -> Result<((i32, i32), usize)> {
        let shared = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let capability = self.context.compute_capability();
        capability
            .and_then(|capability| Ok((capability, self.context.attribute(shared)? as usize)))
            .map_err(|error| self.error("asking what it is able to do", &error))
    }

    /// Number of multiprocessors.
    pub fn multiprocessors(&self) -> DriverResult<u32> {
        let count = self
            .context
            .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        Ok(count as u32)
    }

    /// The error for an error of the driver, during `what`.
    pub fn error(&self, what: &str, error: &DriverError) -> Error {
        let what = format!("{}: {what}", self.name());
        if error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            return Error::Memory(format!("{what}: the device has not enough free memory"));
        }
        if is_lost(&self.context) {
            lost().insert(self.index);
            return Error::Device(format!("{what}: {}; its context is lost", say(error)));
        }
        device_error(&what, error)
    }
}

fn device_error(what: &str, error: &DriverError) -> Error {
    Error::Device(format!("{what}: {}", say(error)))
}

/// Bytes of a device's memory: free, and in all.
fn memory_info(context: &CudaContext) -> DriverResult<(usize, usize)> {
    context.bind_to_thread()?;
    result::mem_get_info()
}

fn say(error: &DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("{error:?}"),
    }
}
