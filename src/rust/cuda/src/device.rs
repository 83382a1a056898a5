//! CUDA devices: lists them, opens them, and loads kernels on them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{result, sys, CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;

use crate::kernels::{Binary, Bundle, Kernels};
use crate::limits::Limits;
use gmhclust_core::error::{Error, Result};
use gmhclust_core::tasks::join;

/// The oldest compute capability that the kernels are compiled for.
const OLDEST: (i32, i32) = (7, 0);

/// The oldest CUDA version whose drivers accept the kernels' PTX, as 1000·major + 10·minor.
const OLDEST_DRIVER: i32 = 12_040;

/// The driver's library, by its usual name.
const LIBRARY: &str = if cfg!(windows) {
    "nvcuda.dll"
} else {
    "libcuda.so.1"
};

/// The result of a call of the driver.
pub type DriverResult<T> = std::result::Result<T, DriverError>;

/// The result of an optional step, or `None` if the device has too little memory for the step. A
/// check of the free memory does not suffice: other processes may take the memory after the check.
pub fn unless_short<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(Error::Memory(_)) => Ok(None),
        result => result.map(Some),
    }
}

/// A device, and the reason if it cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub index: usize,
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Memory in bytes; free memory is `None` if the device could not be opened.
    pub total_memory: usize,
    pub free_memory: Option<usize>,
    /// The CUDA version that the driver supports, as 1000·major + 10·minor.
    pub driver: i32,
    /// The reason why the device cannot be used, if any.
    pub problem: Option<String>,
}

/// All CUDA devices of this machine. To read their free memory, opens the devices that this process
/// does not have open, and closes them again, which takes time.
///
/// # Errors
/// `Error::Device` if there is no CUDA driver, or if it does not work.
pub fn devices() -> Result<Vec<DeviceInfo>> {
    let mut all = described()?;
    for info in &mut all {
        info.free_memory = guarded(|| Ok(open_context(info)))?.map(|(_, free)| free);
    }
    Ok(all)
}

/// Number of CUDA devices of this machine.
///
/// # Errors
/// As [`devices`].
pub fn count() -> Result<usize> {
    guarded(|| {
        result::init().map_err(|error| device_error("the CUDA driver does not start", &error))?;
        let count = result::device::get_count()
            .map_err(|error| device_error("the CUDA driver cannot count its devices", &error))?;
        Ok(count as usize)
    })
}

/// As [`devices`], without opening any device, so without free memory and without problems in
/// opening.
fn described() -> Result<Vec<DeviceInfo>> {
    let count = count()?;
    guarded(|| (0..count).map(describe).collect())
}

/// Runs `body` if a CUDA driver can be loaded. A driver that lacks a function makes cudarc panic;
/// this function turns the panic into an error.
fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    // cudarc loads the library to check that it exists, and unloads it again. Keeping it loaded
    // saves the time to load it again.
    static KEPT: OnceLock<Option<sys::Lib>> = OnceLock::new();
    let guarded = || {
        // SAFETY: only tries to load the driver's library and its functions.
        KEPT.get_or_init(|| unsafe { sys::Lib::new(LIBRARY) }.ok());
        // SAFETY: as above.
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
    // SAFETY: the driver has returned `device` above.
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
    Ok(info)
}

/// A context on a device, and the bytes of its free memory. `None` if the device cannot be used;
/// `info` then has the problem.
fn open_context(info: &mut DeviceInfo) -> Option<(Arc<CudaContext>, usize)> {
    if info.problem.is_some() {
        return None;
    }
    let opened =
        CudaContext::new(info.index).and_then(|context| Ok((memory_info(&context)?.0, context)));
    match opened {
        Ok((free, context)) => return Some((context, free)),
        Err(error) if lost().contains(&info.index) => {
            let what = "its context was lost, and this process does not get another";
            info.problem = Some(format!("{what} ({}); restart R", say(&error)));
        }
        Err(error) => info.problem = Some(format!("it cannot be opened: {}", say(&error))),
    }
    None
}

/// Whether a context is lost, and with it all memory of this process on the device. A kernel that
/// fails destroys the context; every later call of the driver then returns the kernel's error.
fn is_lost(context: &CudaContext) -> bool {
    // Clears errors of earlier calls that freed memory.
    let _ = context.check_err();
    if context.bind_to_thread().is_err() {
        return true;
    }
    // SAFETY: queries the null stream, which every context has.
    let state = unsafe { sys::cuStreamQuery(std::ptr::null_mut()) };
    !matches!(
        state,
        CUresult::CUDA_SUCCESS | CUresult::CUDA_ERROR_NOT_READY
    )
}

/// An open device.
pub struct Device {
    pub context: Arc<CudaContext>,
    /// The modules, loaded at their first use: a driver may take seconds to compile a module for
    /// the first time.
    modules: Mutex<HashMap<&'static str, Arc<CudaModule>>>,
    /// What a call leaves for the next one, since making it takes long: see [`Device::keep`].
    kept: Mutex<Option<Box<dyn Any + Send>>>,
    /// Small values that many kernels need at the same time: see [`Device::take_spare`].
    spare: Mutex<Vec<Box<dyn Any + Send>>>,
    limits: Limits,
    index: usize,
}

/// The entry of a device that this process has open, or is opening.
type Place = Arc<Mutex<Option<Arc<Device>>>>;

/// The devices that this process has open, by number. Opening a device takes longer than a small
/// clustering. Meanwhile only its own entry is locked, so that threads can open several devices at
/// the same time.
static OPEN: Mutex<BTreeMap<usize, Place>> = Mutex::new(BTreeMap::new());

fn place(index: usize) -> Place {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.entry(index).or_default().clone()
}

/// The devices whose contexts this process has lost.
static LOST: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn lost() -> MutexGuard<'static, BTreeSet<usize>> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Device `index`, opened at its first use.
    ///
    /// # Errors
    /// `Error::Device` if the device cannot be opened.
    pub fn shared(index: usize) -> Result<Arc<Self>> {
        let place = place(index);
        let mut open = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = &*open {
            // The loss of one context loses the other contexts of the process.
            let others_are_lost = !lost().is_empty();
            if !(others_are_lost && is_lost(&device.context)) {
                return Ok(device.clone());
            }
            lost().insert(index);
            *open = None;
        }
        Ok(open.insert(Arc::new(Self::open(index)?)).clone())
    }

    /// These devices, opened in parallel.
    pub fn shared_each(indices: &[usize]) -> Vec<Result<Arc<Self>>> {
        match indices {
            &[index] => vec![Self::shared(index)],
            _ => thread::scope(|scope| {
                let open = |&index| scope.spawn(move || Self::shared(index));
                let threads: Vec<_> = indices.iter().map(open).collect();
                threads.into_iter().map(join).collect()
            }),
        }
    }

    /// After a failure on the device, closes it at the end of its present uses, so that the next
    /// use opens it again: a context that has failed keeps failing.
    pub fn forget_on_failure(&self, error: &Error) {
        if let Error::Device(_) = error {
            let place = place(self.index);
            let mut open = place.lock().unwrap_or_else(PoisonError::into_inner);
            open.take_if(|device| std::ptr::eq(&**device, self));
        }
    }

    /// Opens device `index`.
    ///
    /// # Errors
    /// `Error::Device` if the device cannot be opened.
    fn open(index: usize) -> Result<Self> {
        Ok(Self {
            limits: Limits::of_environment()?,
            context: Self::open_context(index)?,
            modules: Mutex::new(HashMap::new()),
            kept: Mutex::new(None),
            spare: Mutex::new(Vec::new()),
            index,
        })
    }

    /// Keeps a value for [`Device::take_kept`], in place of the one that was kept before.
    pub fn keep<T: Any + Send>(&self, value: T) {
        let kept = self.kept.lock();
        let before = kept
            .unwrap_or_else(PoisonError::into_inner)
            .replace(Box::new(value));
        // Freeing memory may take long, so the lock is released before.
        drop(before);
    }

    /// Takes the value that is kept. If it has another type, frees it and returns `None`: a device
    /// keeps one value, of any type.
    pub fn take_kept<T: Any>(&self) -> Option<T> {
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        kept.downcast().ok().map(|value| *value)
    }

    /// One of the spare values of this type. If there are none, `more` makes some.
    ///
    /// # Errors
    /// Those of `more`.
    pub fn take_spare<T: Any + Send>(
        &self,
        more: impl FnOnce() -> DriverResult<Vec<T>>,
    ) -> DriverResult<T> {
        // While one thread makes some, the others wait for them.
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let is_wanted = |value: &Box<dyn Any + Send>| value.is::<T>();
        if !spare.iter().any(is_wanted) {
            spare.extend(more()?.into_iter().map(|value| Box::new(value) as _));
        }
        let place = spare.iter().rposition(is_wanted);
        let value = spare.swap_remove(place.expect("`more` makes some"));
        Ok(*value.downcast().expect("the type was checked"))
    }

    /// Keeps a value for [`Device::take_spare`].
    pub fn keep_spare<T: Any + Send>(&self, value: T) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(Box::new(value));
    }

    fn open_context(index: usize) -> Result<Arc<CudaContext>> {
        let mut info = described()?.into_iter().nth(index).ok_or_else(|| {
            Error::Device(format!("there is no CUDA device {index} on this machine"))
        })?;
        guarded(|| match open_context(&mut info) {
            Some((context, _)) => {
                // SAFETY: this crate uses a buffer only on the stream that it was made on, or waits
                // for the end of the work of other streams before it drops the buffer and before
                // work that needs their results.
                unsafe { context.disable_event_tracking() };
                Ok(context)
            }
            None => Err(Error::Device(format!(
                "CUDA device {index} ({}) cannot be used: {}",
                info.name,
                info.problem.as_deref().unwrap_or_default()
            ))),
        })
    }

    /// The device's number.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The device's name in messages.
    pub fn name(&self) -> String {
        format!("CUDA device {}", self.index)
    }

    /// One of the kernels of a module.
    ///
    /// # Errors
    /// As [`Device::module`].
    pub fn kernel(&self, kernels: &Kernels, name: &str) -> Result<CudaFunction> {
        let kernel = self.module(kernels.name)?.load_function(name);
        kernel.map_err(|error| self.error(&format!("kernel {name}"), &error))
    }

    /// The module of this name, loaded at its first use: its binary for this device, or else its
    /// PTX, which the driver compiles.
    ///
    /// # Errors
    /// `Error::Device` if it cannot be loaded, `Error::Memory` if there is too little memory.
    pub fn module(&self, name: &'static str) -> Result<Arc<CudaModule>> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(name) {
            return Ok(module.clone());
        }
        let failed = |error| self.error(&format!("kernels {name}"), &error);
        let module = match self.binary(name).map_err(failed)? {
            Some(module) => module,
            None => {
                let ptx = Ptx::from_src(Bundle::open()?.ptx(name));
                self.context.load_module(ptx).map_err(failed)?
            }
        };
        modules.insert(name, module.clone());
        Ok(module)
    }

    /// Loads the module's binary for this device. `None` if there is none, or if it cannot be
    /// loaded; the caller then uses the PTX.
    fn binary(&self, name: &str) -> DriverResult<Option<Arc<CudaModule>>> {
        let binary = Binary::fitting(name, self.capability()?);
        let content = binary.and_then(|binary| binary.unpack().ok());
        Ok(content.and_then(|content| self.context.load_module(Ptx::from_binary(content)).ok()))
    }

    /// Whether this number of bytes is free, and some more for the driver.
    ///
    /// # Errors
    /// `Error::Device` when the device fails.
    pub fn has_memory(&self, bytes: usize) -> Result<bool> {
        Ok(bytes + (bytes >> 4) <= self.free_memory()?)
    }

    /// Bytes of free memory.
    pub fn free_memory(&self) -> Result<usize> {
        let (free, _) = memory_info(&self.context)
            .map_err(|error| self.error("asking for its free memory", &error))?;
        Ok(free)
    }

    /// The compute capability, major and minor, and the largest number of bytes of shared memory of
    /// a block.
    pub fn abilities(&self) -> Result<((i32, i32), usize)> {
        self.capability()
            .and_then(|capability| Ok((capability, self.shared_memory()?)))
            .map_err(|error| self.error("asking what it is able to do", &error))
    }

    fn capability(&self) -> DriverResult<(i32, i32)> {
        let capability = self.context.compute_capability()?;
        Ok(capability.min(self.limits.capability))
    }

    /// Largest number of bytes of shared memory of a block, at most that of [`Limits`], by which
    /// tests imitate a small GPU.
    pub fn shared_memory(&self) -> DriverResult<usize> {
        let most = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let bytes = self.context.attribute(most)? as usize;
        Ok(bytes.min(self.limits.shared_memory))
    }

    /// Number of multiprocessors, at most that of [`Limits`].
    pub fn multiprocessors(&self) -> DriverResult<u32> {
        let count = Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let count = self.context.attribute(count)? as u32;
        Ok(count.min(self.limits.multiprocessors))
    }

    /// Converts an error of the driver during `what`: to `Error::Memory` if memory is short, else
    /// to `Error::Device`. Records the device as lost if its context is.
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

/// The free and the total bytes of a device's memory.
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
