//! The arguments of kernels: structs with the same fields as a struct in a header of `kernels`.
//! Where the header has a pointer, the Rust struct has a device address.
//!
//! [`arguments`] declares such a struct and a description of its layout. `check()` compares this
//! layout with the layout that a C++ compiler makes from the header. Each module that launches
//! kernels has a test for its own structs.

/// Declares structs that kernels take as arguments.
macro_rules! arguments {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type,)*
        }

        // SAFETY: plain old data, laid out as in the kernels' header, as a test makes sure.
        unsafe impl cudarc::driver::DeviceRepr for $name {}

        impl $name {
            #[cfg(test)]
            $visibility fn layout() -> $crate::arguments::StructLayout {
                $crate::arguments::StructLayout {
                    name: stringify!($name),
                    size: size_of::<Self>(),
                    alignment: align_of::<Self>(),
                    fields: vec![$((
                        stringify!($field),
                        std::mem::offset_of!(Self, $field),
                        size_of::<$type>(),
                    )),*],
                }
            }
        }
    )*};
}
pub(crate) use arguments;

/// Declares a struct of named values of one type. The struct may be a field of a struct of
/// arguments. The header's struct then has the values as fields.
macro_rules! named_values {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field:ident,)*
    }) => {
        $(#[$attribute])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy)]
        $visibility struct $name<T> {
            $($(#[$field_attribute])* $visibility $field: T,)*
        }

        // Not every struct needs all methods.
        #[allow(dead_code)]
        impl<T> $name<T> {
            /// Applies `make` to each value.
            $visibility fn map<U>(&self, mut make: impl FnMut(&T) -> U) -> $name<U> {
                $name { $($field: make(&self.$field),)* }
            }

            /// Applies `make` to each value, until it fails.
            $visibility fn try_map<U, E>(
                &self,
                mut make: impl FnMut(&T) -> std::result::Result<U, E>,
            ) -> std::result::Result<$name<U>, E> {
                Ok($name { $($field: make(&self.$field)?,)* })
            }

            /// All values, in order.
            $visibility fn values(&self) -> impl Iterator<Item = &T> {
                [$(&self.$field),*].into_iter()
            }
        }

        impl<T> $name<T> {
            #[cfg(test)]
            fn fields() -> Vec<(&'static str, usize, usize)> {
                vec![$((
                    stringify!($field),
                    std::mem::offset_of!(Self, $field),
                    size_of::<T>(),
                )),*]
            }
        }
    };
}
pub(crate) use named_values;

/// Lists constants with their names, for [`check`].
#[cfg(test)]
macro_rules! constants {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), $name as u64)),*]
    };
}
#[cfg(test)]
pub(crate) use constants;

/// The layout of a struct in Rust.
#[cfg(test)]
pub struct StructLayout {
    pub name: &'static str,
    pub size: usize,
    pub alignment: usize,
    /// The name, offset and size of each field.
    pub fields: Vec<(&'static str, usize, usize)>,
}

#[cfg(test)]
impl StructLayout {
    /// Replaces the field `part` by its own fields.
    pub fn with_fields_of(mut self, part: &str, fields: &[(&'static str, usize, usize)]) -> Self {
        let at = self.fields.iter().position(|field| field.0 == part);
        let at = at.unwrap_or_else(|| panic!("struct {} has no field {part}", self.name));
        let start = self.fields[at].1;
        let moved = fields
            .iter()
            .map(|&(name, offset, size)| (name, start + offset, size));
        self.fields.splice(at..=at, moved);
        self
    }
}

/// Compares structs and constants with those of a header, which the system's C++ compiler compiles.
#[cfg(test)]
pub fn check(
    header: &str,
    definitions: &[&str],
    structs: &[StructLayout],
    constants: &[(&str, u64)],
) {
    use std::fmt::Write;

    let mut numbers = String::new();
    let mut names = Vec::new();
    let mut expected = Vec::new();
    let mut expect = |expression: String, value: usize| {
        writeln!(numbers, "  *out++ = (unsigned long long)({expression});").unwrap();
        names.push(expression);
        expected.push(value as u64);
    };
    let mut bindings = String::new();
    for StructLayout {
        name,
        size,
        alignment,
        fields,
    } in structs
    {
        // This does not compile if the header's struct has more or fewer fields.
        let all: Vec<String> = (0..fields.len()).map(|i| format!("field{i}")).collect();
        writeln!(
            bindings,
            "void bind({name} &all) {{ auto &[{}] = all; }}",
            all.join(", ")
        )
        .unwrap();
        expect(format!("sizeof({name})"), *size);
        expect(format!("alignof({name})"), *alignment);
        for (field, offset, size) in fields {
            expect(format!("offsetof({name}, {field})"), *offset);
            expect(format!("sizeof({name}::{field})"), *size);
        }
    }
    for (name, value) in constants {
        expect((*name).to_string(), *value as usize);
    }
    let source = format!(
        "#include \"host/cuda.hpp\"\n#include \"{header}\"\n#include <cstddef>\n{bindings}\
         EXPORT void host_layout(unsigned long long *out) {{\n{numbers}}}\n"
    );
    let library = crate::host::compile(&source, definitions);
    let mut found = vec![u64::MAX; expected.len()];
    // SAFETY: the source above declares this type, and the function writes this number of values.
    unsafe {
        let layout = library
            .get::<unsafe extern "C" fn(*mut u64)>(b"host_layout")
            .unwrap();
        layout(found.as_mut_ptr());
    }
    for ((name, expected), found) in names.iter().zip(&expected).zip(&found) {
        assert_eq!(
            expected, found,
            "{name} in {header} (right) and in Rust (left)"
        );
    }
}
