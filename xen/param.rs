// SPDX-License-Identifier: GPL-2.0

//! Module parameters that sysfs shows.
//!
//! The kernel crate's parameters have no file under `/sys/module/*/parameters/`; users of these
//! drivers rely on theirs.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

use crate::bindings;
use core::cell::UnsafeCell;
use kernel::ffi::{
    c_char,
    c_int, //
};

mod private {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for i32 {}
    impl Sealed for bool {}
    impl<const LEAST: u32, const MOST: u32> Sealed for super::Ranged<LEAST, MOST> {}
}

/// A type that a parameter can have.
pub trait ParamType: private::Sealed + Copy + 'static {
    /// The kernel's functions that parse and print it.
    #[doc(hidden)]
    const OPS: *const bindings::kernel_param_ops;

    /// What `modinfo` calls it.
    const NAME: &'static str;
}

impl ParamType for u32 {
    const OPS: *const bindings::kernel_param_ops = core::ptr::addr_of!(bindings::param_ops_uint);
    const NAME: &'static str = "uint";
}

impl ParamType for i32 {
    const OPS: *const bindings::kernel_param_ops = core::ptr::addr_of!(bindings::param_ops_int);
    const NAME: &'static str = "int";
}

impl ParamType for bool {
    const OPS: *const bindings::kernel_param_ops = core::ptr::addr_of!(bindings::param_ops_bool);
    const NAME: &'static str = "bool";
}

/// A number from `LEAST` to `MOST`. Others are refused, at load time, too: the kernel's log then names
/// the parameter.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Ranged<const LEAST: u32, const MOST: u32>(u32);

impl<const LEAST: u32, const MOST: u32> Ranged<LEAST, MOST> {
    const TABLE: bindings::kernel_param_ops = bindings::kernel_param_ops {
        flags: 0,
        set: Some(Self::set_callback),
        get: Some(bindings::param_get_uint),
        free: None,
    };

    /// A default value, which must be in the range.
    pub const fn new(value: u32) -> Self {
        assert!(LEAST <= value && value <= MOST, "out of range");
        Self(value)
    }

    /// The number.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// # Safety
    ///
    /// `text` must be NUL-terminated, and `param` a parameter of this type.
    unsafe extern "C" fn set_callback(
        text: *const c_char,
        param: *const bindings::kernel_param,
    ) -> c_int {
        // SAFETY: By this function's requirements; the type is transparent.
        unsafe { bindings::param_set_uint_minmax(text, param, LEAST, MOST) }
    }
}

impl<const LEAST: u32, const MOST: u32> ParamType for Ranged<LEAST, MOST> {
    const OPS: *const bindings::kernel_param_ops = &Self::TABLE;
    const NAME: &'static str = "uint";
}

/// The value of a parameter, made by [`module_param!`](crate::module_param).
#[repr(transparent)]
pub struct Param<T>(UnsafeCell<T>);

// SAFETY: The value is at most a word that is read and written in one piece, by the kernel and here.
unsafe impl<T: Send> Sync for Param<T> {}

impl<T: ParamType> Param<T> {
    #[doc(hidden)]
    pub const fn new(default: T) -> Self {
        Self(UnsafeCell::new(default))
    }

    /// The value now. A writable parameter can have another one at the next call.
    pub fn get(&self) -> T {
        // SAFETY: The value is initialised. It is at most a word, so a volatile read of it sees one
        // value; a `bool` is only ever written as 0 or 1.
        unsafe { self.0.get().read_volatile() }
    }

    /// Replaces the value that the user has given by one that is used instead, for `/sys` to show
    /// it. To be called when the module is loaded, before anything reads it.
    pub fn set(&self, value: T) {
        // SAFETY: As in `get`.
        unsafe { self.0.get().write_volatile(value) };
    }
}

/// An entry of the kernel's table of parameters.
#[doc(hidden)]
#[repr(transparent)]
pub struct KernelParam(bindings::kernel_param);

// SAFETY: The kernel serialises its use of the entry; Rust code never looks at it.
unsafe impl Sync for KernelParam {}

impl KernelParam {
    pub const fn new<T: ParamType>(
        name: &'static [u8],
        mode: u16,
        param: &'static Param<T>,
    ) -> Self {
        assert!(matches!(name, [.., 0]), "the name must end with a NUL");
        Self(bindings::kernel_param {
            name: name.as_ptr().cast(),
            // The module that this crate is linked into.
            mod_: if cfg!(MODULE) {
                core::ptr::addr_of_mut!(bindings::__this_module)
            } else {
                core::ptr::null_mut()
            },
            ops: T::OPS,
            perm: mode,
            level: -1,
            flags: 0,
            __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                arg: param.0.get().cast(),
            },
        })
    }
}

/// Number of bytes of all parts together.
#[doc(hidden)]
pub const fn length(parts: &[&str]) -> usize {
    let mut length = 0;
    let mut part = 0;
    while part < parts.len() {
        length += parts[part].len();
        part += 1;
    }
    length
}

/// All parts together; `N` must be their [`length`].
#[doc(hidden)]
pub const fn join<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut joined = [0; N];
    let mut at = 0;
    let mut part = 0;
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            joined[at] = bytes[i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    joined
}

/// Declares a module parameter with a file of the given mode in sysfs.
///
/// # Examples
///
/// ```ignore
/// xen::module_param! {
///     /// Rings that a disk may have.
///     static MAX_QUEUES: u32 = 4;
///     module: "xen_blkfront",
///     name: "max_queues",
///     mode: 0o444,
///     description: "Maximum number of queues per virtual disk",
/// }
/// ```
#[macro_export]
macro_rules! module_param {
    (
        $(#[$attribute:meta])*
        $vis:vis static $static:ident: $type:ty = $default:expr;
        module: $module:literal,
        name: $name:literal,
        mode: $mode:literal,
        description: $description:literal $(,)?
    ) => {
        $(#[$attribute])*
        $vis static $static: $crate::param::Param<$type> = $crate::param::Param::new($default);

        const _: () = {
            // Built in, a parameter is named after the module on the kernel's command line.
            const PREFIX: &str = if cfg!(MODULE) { "" } else { concat!($module, ".") };

            const NAME: &[&str] = &[PREFIX, $name, "\0"];
            static NAME_BYTES: [u8; $crate::param::length(NAME)] = $crate::param::join(NAME);

            #[link_section = "__param"]
            #[used(compiler)]
            static PARAM: $crate::param::KernelParam =
                $crate::param::KernelParam::new(&NAME_BYTES, $mode, &$static);

            const PARM: &[&str] = &[PREFIX, "parm=", $name, ":", $description, "\0"];
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARM_BYTES: [u8; $crate::param::length(PARM)] = $crate::param::join(PARM);

            const TYPE: &[&str] = &[
                PREFIX,
                "parmtype=",
                $name,
                ":",
                <$type as $crate::param::ParamType>::NAME,
                "\0",
            ];
            #[link_section = ".modinfo"]
            #[used(compiler)]
            static TYPE_BYTES: [u8; $crate::param::length(TYPE)] = $crate::param::join(TYPE);
        };
    };
}
