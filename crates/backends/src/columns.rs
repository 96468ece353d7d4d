//! A macro that declares structs for rows of either database.

/// Declares a struct that is read from a row: each field is the column with its name. The fields
/// after `with` are structs of the same kind, read from the same row.
///
/// The derive macro of sqlx does the same, but requires a second build of sqlx, both drivers and
/// their TLS library for the host.
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
