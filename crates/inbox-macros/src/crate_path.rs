//! Under which path the handler's crate sees inbox-core.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::Span;
use syn::{Error, Ident, Path, parse_quote};

/// The facade, which re-exports all of inbox-core, comes first: who uses it need not know the rest.
const CRATES: [&str; 2] = ["inbox", "inbox-core"];

/// The path by the dependencies in the handler's `Cargo.toml`, also under another name.
pub(crate) fn find(handler: &Ident) -> Result<Path, Error> {
    find_by(handler, |package| crate_name(package).ok())
}

fn find_by(handler: &Ident, look_up: impl Fn(&str) -> Option<FoundCrate>) -> Result<Path, Error> {
    let found = CRATES.iter().find_map(|package| Some((package, look_up(package)?)));
    let name = match found {
        Some((_, FoundCrate::Name(name))) => name,
        // A crate's own tests and examples see it under its name; the crate itself by
        // `extern crate self as …`.
        Some((package, FoundCrate::Itself)) => package.replace('-', "_"),
        None => {
            return Err(Error::new(
                handler.span(),
                "found neither `inbox` nor `inbox-core` among the dependencies: add one of them to `Cargo.toml`, or \
                 say where it is, as in `#[inbox(crate = my_crate::inbox, …)]`",
            ));
        }
    };
    let name = Ident::new(&name, Span::call_site());
    Ok(parse_quote!(::#name))
}

#[cfg(test)]
mod tests {
    use quote::{ToTokens, format_ident};

    use super::*;

    /// What is found in a `Cargo.toml` with these dependencies.
    fn path(dependencies: &[(&str, FoundCrate)]) -> Result<String, String> {
        let look_up = |package: &str| {
            dependencies.iter().find(|(name, _)| *name == package).map(|(_, found)| found.clone())
        };
        find_by(&format_ident!("Handler"), look_up)
            .map(|path| path.to_token_stream().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_facade_comes_before_the_core() {
        let facade = ("inbox", FoundCrate::Name("inbox".into()));
        let core = ("inbox-core", FoundCrate::Name("inbox_core".into()));
        assert_eq!(path(&[core.clone(), facade]).as_deref(), Ok(":: inbox"));
        assert_eq!(path(&[core]).as_deref(), Ok(":: inbox_core"));
    }

    #[test]
    fn a_renamed_dependency_is_found_under_its_name() {
        assert_eq!(
            path(&[("inbox-core", FoundCrate::Name("messages".into()))]).as_deref(),
            Ok(":: messages")
        );
    }

    #[test]
    fn the_core_finds_itself() {
        assert_eq!(path(&[("inbox-core", FoundCrate::Itself)]).as_deref(), Ok(":: inbox_core"));
    }

    #[test]
    fn without_either_the_error_says_what_to_add() {
        let error = path(&[]).expect_err("there is nothing to find");
        assert!(error.contains("Cargo.toml") && error.contains("crate ="), "{error}");
    }
}
