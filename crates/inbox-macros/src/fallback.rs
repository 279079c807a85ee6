//! The errors, and an impl that stands in, so that one mistake in the attribute does not also make
//! everything fail that needs a `Subscription`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, parse_quote};

use crate::ast::Input;
use crate::expand;

pub(crate) fn expand(input: &Input<'_>, errors: &Error) -> TokenStream {
    let errors = errors.to_compile_error();
    let Some(core) = &input.core else {
        return errors;
    };
    let unit = parse_quote!(());
    let payload = input.attrs.payload.as_ref().unwrap_or(&unit);
    let definition = quote!(::core::unreachable!());
    let bounds = expand::bounds(input, payload);
    let implementation = expand::implementation(input, core, payload, bounds.as_ref(), &definition);
    quote! {
        #errors
        #implementation
    }
}
