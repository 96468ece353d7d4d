//! Structs that are read from rows of both databases.

/// Declares a struct whose fields are the columns of a row, by name. The fields after `with` are
/// such structs themselves and are read from the same row.
///
/// The derive macro of sqlx does the same, but compiles sqlx, both drivers and their TLS library a
/// second time, for the compiler.
macro_rules! columns {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$note:meta])* $field_visibility:vis $field:ident: $kind:ty,)*
        } $(with {
            $($part:ident: $part_kind:ty,)*
        })?
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$note])* $field_visibility $field: $kind,)*
            $($($part: $part_kind,)*)?
        }

        impl<'r, R> ::sqlx::FromRow<'r, R> for $name
        where
            R: ::sqlx::Row,
            for<'n> &'n str: ::sqlx::ColumnIndex<R>,
            $($kind: ::sqlx::Decode<'r, R::Database> + ::sqlx::Type<R::Database>,)*
            $($($part_kind: ::sqlx::FromRow<'r, R>,)*)?
        {
            fn from_row(row: &'r R) -> ::sqlx::Result<Self> {
                Ok(Self {
                    $($field: row.try_get(stringify!($field))?,)*
                    $($($part: ::sqlx::FromRow::from_row(row)?,)*)?
                })
            }
        }
    };
}

pub(crate) use columns;
